// The device's IPv6 GID: what it says of it, connections and datagrams by it, and neighbour
// discovery.
#include "dataplane/wire/neighbour.h"

#include <endian.h>

#include "tests/tools/soft_nic/rig.h"

namespace understudy::soft_nic {
namespace {

class SoftNicIpv6 : public SoftNicRig {
 protected:
  SoftNicIpv6() { gid_ = 1; }
  IpAddress address(const Program& p) { return p.nic->interface().addresses[1].address; }
  /// Every RoCE frame of `p` from here on.
  void watch(Program& p) {
    p.port->loses = [&](const CablePort::Frame& frame) {
      FrameView view;
      RoceView roce;
      if (parse_frame(frame, view, roce) == FrameKind::kRoce) {
        EXPECT_TRUE(view.v6);
        EXPECT_EQ(view.src, address(p));
        EXPECT_GE(view.udp_src, 0xc000);
        EXPECT_TRUE(icrc_ok(view, roce));
        ++frames_;
      }
      return false;
    };
  }
  /// What end `p` says to `frame`, which comes in.
  std::vector<CablePort::Frame> answers(Program& p, const CablePort::Frame& frame) {
    std::vector<CablePort::Frame> out;
    p.port->loses = [&](const CablePort::Frame& said) {
      out.push_back(said);
      return true;
    };
    p.port->arrived.push_back(frame);
    run(2);
    p.port->loses = {};
    return out;
  }
  int frames_ = 0;
};

TEST_F(SoftNicIpv6, IsTheSecondGidOfThePort) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(a().context, 1, &port), 0);
  EXPECT_EQ(port.gid_tbl_len, 2);
  std::array<ibv_gid_entry, 3> table{};
  ASSERT_EQ(ibv_query_gid_table(a().context, table.data(), table.size(), 0), 2);
  for (uint32_t i = 0; i < 2; ++i) {
    const IpAddress& own = a().nic->interface().addresses[i].address;
    ibv_gid gid;
    ASSERT_EQ(ibv_query_gid(a().context, 1, static_cast<int>(i), &gid), 0);
    EXPECT_EQ(std::memcmp(gid.raw, own.data(), sizeof gid.raw), 0);
    EXPECT_EQ(std::memcmp(table[i].gid.raw, own.data(), sizeof gid.raw), 0);
    EXPECT_EQ(table[i].gid_index, i);
    EXPECT_EQ(table[i].gid_type, IBV_GID_TYPE_ROCE_V2);
    ibv_gid_entry entry{};
    EXPECT_EQ(ibv_query_gid_ex(a().context, 1, i, &entry, 0), 0);
    EXPECT_EQ(std::memcmp(&entry, &table[i], sizeof entry), 0);
  }
  ibv_gid gid;
  EXPECT_EQ(ibv_query_gid(a().context, 1, 2, &gid), -1);
  EXPECT_EQ(ibv_query_gid(a().context, 1, -1, &gid), -1);
  EXPECT_EQ(ibv_query_gid_ex(a().context, 1, 2, table.data(), 0), ENODATA);
  EXPECT_EQ(ibv_query_gid_table(a().context, table.data(), 1, 0), -EINVAL) << "no room for both";
}

TEST_F(SoftNicIpv6, CarriesAConnection) {
  connect();
  watch(a());
  watch(b());
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 5000)}), 0);
  a().write(0, std::string(4990, 'x') + "the end");
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 4997)}), 0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(completion(b()).byte_len, 4997U);
  EXPECT_EQ(b().text(4990, 7), "the end");
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_READ, {a().piece(0, 7)}, 2, IBV_SEND_SIGNALED,
                 [&](ibv_send_wr& w) {
                   w.wr.rdma = {b().address(4990), b().mr->rkey};
                 }),
            0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a().text(0, 7), "the end");
  EXPECT_GE(frames_, 5 + 1 + 1 + 1);
}

TEST_F(SoftNicIpv6, AVectorIsOfOneFamily) {
  introduce();
  ASSERT_EQ(to_init(a().qp), 0);
  ibv_qp_attr attr = rtr(b());
  for (const uint8_t wrong : {uint8_t{0}, uint8_t{2}}) {
    attr.ah_attr.grh.sgid_index = wrong;
    EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), EINVAL);
    errno = 0;
    EXPECT_EQ(ibv_create_ah(a().pd, &attr.ah_attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  attr = rtr(b());
  std::memset(attr.ah_attr.grh.dgid.raw, 0, sizeof attr.ah_attr.grh.dgid.raw);
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), EINVAL);
  attr = rtr(b());
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), 0);
}

TEST_F(SoftNicIpv6, DatagramsComeBehindTheirHeader) {
  constexpr uint32_t kQkey = 0x11111111, kGrh = 40;
  introduce();
  for (Program& p : ends_) {
    EXPECT_EQ(ibv_destroy_qp(p.qp), 0);
    ibv_qp_init_attr made{};
    made.send_cq = made.recv_cq = p.cq;
    made.cap = {16, 16, 4, 4, 64};
    made.qp_type = IBV_QPT_UD;
    p.qp = ibv_create_qp(p.pd, &made);
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qkey = kQkey;
    attr.qp_state = IBV_QPS_INIT;
    ASSERT_EQ(
        ibv_modify_qp(p.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
        0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(p.qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(p.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  watch(a());
  watch(b());
  const auto send = [&](Program& from, ibv_ah* ah, const Program& to, uint32_t bytes) {
    return post(from.qp, IBV_WR_SEND, {from.piece(0, bytes)}, 3, IBV_SEND_SIGNALED,
                [&](ibv_send_wr& w) {
                  w.wr.ud = {ah, to.qp->qp_num, kQkey};
                });
  };
  ibv_qp_attr attr = rtr(b());
  attr.ah_attr.grh.traffic_class = 0x68;
  ibv_ah* there = ibv_create_ah(a().pd, &attr.ah_attr);
  ASSERT_NE(there, nullptr);
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 200)}), 0);
  ASSERT_EQ(post_receive(a().qp, {a().piece(500, 200)}), 0);
  a().write(0, "hello");
  ASSERT_EQ(send(a(), there, b(), 5), 0);
  run();
  ibv_wc got = completion(b());
  EXPECT_EQ(got.byte_len, kGrh + 5);
  EXPECT_EQ(got.sl, 0x9);  // IPv6 and UDP
  EXPECT_EQ(b().text(kGrh, 5), "hello");
  ibv_grh header;
  std::memcpy(&header, b().memory.data(), sizeof header);
  EXPECT_EQ(be32toh(header.version_tclass_flow), 0x66800000U);
  EXPECT_EQ(std::memcmp(header.sgid.raw, address(a()).data(), 16), 0);
  EXPECT_EQ(std::memcmp(header.dgid.raw, address(b()).data(), 16), 0);

  ibv_ah_attr back{};
  ASSERT_EQ(ibv_init_ah_from_wc(b().context, 1, &got, &header, &back), 0);
  EXPECT_EQ(back.grh.sgid_index, 1);
  EXPECT_EQ(back.grh.traffic_class, 0x68);
  ibv_ah* answer = ibv_create_ah_from_wc(b().pd, &got, &header, 1);
  ASSERT_NE(answer, nullptr);
  b().write(0, "you");
  ASSERT_EQ(send(b(), answer, a(), 3), 0);
  run();
  EXPECT_EQ(a().text(500 + kGrh, 3), "you");
  EXPECT_EQ(frames_, 2);
  EXPECT_EQ(ibv_destroy_ah(there), 0);
  EXPECT_EQ(ibv_destroy_ah(answer), 0);
}

TEST_F(SoftNicIpv6, ASolicitationForItIsAnswered) {
  CablePort::Frame frame(kNeighbourFrameBytes);
  const LinkEnd asker{a().nic->interface().mac, {}};
  frame.resize(write_neighbour_question(asker, address(a()), address(b()), frame.data()));
  const auto said = answers(b(), frame);
  ASSERT_EQ(said.size(), 1U);
  FrameView view;
  RoceView roce;
  ASSERT_EQ(parse_frame(said[0], view, roce), FrameKind::kIp);
  EXPECT_EQ(view.dst_mac, asker.mac);
  const auto news = neighbour_news(view);
  ASSERT_TRUE(news);
  EXPECT_EQ(news->address, address(b()));
  EXPECT_EQ(news->mac, b().nic->interface().mac);

  frame.assign(kNeighbourFrameBytes, 0);
  const IpAddress other = *IpAddress::parse("fd00:8::77");
  frame.resize(write_neighbour_question(asker, address(a()), other, frame.data()));
  EXPECT_TRUE(answers(b(), frame).empty());
}

TEST_F(SoftNicIpv6, APeerIsAskedForBySolicitation) {
  std::vector<CablePort::Frame> asked;
  a().port->loses = [&](const CablePort::Frame& frame) {
    asked.push_back(frame);
    return false;
  };
  step_ = Duration::ms(100);
  std::unique_lock lock(a().nic->mutex());
  EXPECT_FALSE(a().nic->resolve(*IpAddress::parse("fd00:8::77"), lock));
  ASSERT_EQ(asked.size(), 3U);
  FrameView view;
  RoceView roce;
  ASSERT_EQ(parse_frame(asked[0], view, roce), FrameKind::kIp);
  EXPECT_EQ(asked_address(view), *IpAddress::parse("fd00:8::77"));
  EXPECT_EQ(view.src, address(a()));
}

TEST(SoftNicInterface, FramesGoToTheRouterOfTheirFamily) {
  Interface own;
  own.addresses = {*IpPrefix::parse("10.8.0.1/24"), *IpPrefix::parse("fd00:8::1/64"),
                   *IpPrefix::parse("fd00:9::1/64")};
  own.gateway_v4 = *IpAddress::parse("10.8.0.254");
  const auto at = [](const char* text) { return *IpAddress::parse(text); };
  EXPECT_EQ(own.next_hop(at("10.8.0.2")), at("10.8.0.2"));
  EXPECT_EQ(own.next_hop(at("10.9.0.2")), at("10.8.0.254"));
  EXPECT_EQ(own.next_hop(at("fd00:7::2")), at("fd00:7::2")) << "there is none for IPv6";
  own.gateway_v6 = at("fe80::1");
  EXPECT_EQ(own.next_hop(at("fd00:7::2")), at("fe80::1"));
  EXPECT_EQ(own.next_hop(at("fe80::2")), at("fe80::2"));
  EXPECT_EQ(*own.source_for(at("fd00:9::2")), at("fd00:9::1"));
  EXPECT_EQ(*own.source_for(at("fd00:7::2")), at("fd00:8::1"));
  EXPECT_EQ(*own.source_for(at("10.9.0.2")), at("10.8.0.1"));
  own.addresses.resize(1);
  EXPECT_EQ(own.source_for(at("fd00:9::2")), nullptr);
}

}  // namespace
}  // namespace understudy::soft_nic
