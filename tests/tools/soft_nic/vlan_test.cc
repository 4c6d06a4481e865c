// A soft NIC in a VLAN: tags of what leaves, what of others' is left alone, and the kernel beside
// it, whose frames have no tag.
#include "dataplane/wire/neighbour.h"
#include "tests/tools/soft_nic/rig.h"

namespace understudy::soft_nic {
namespace {

constexpr uint16_t kVlan = 100;

class SoftNicVlan : public SoftNicRig {
 protected:
  explicit SoftNicVlan(std::optional<uint16_t> vlan = kVlan) : SoftNicRig(vlan) {
    for (Program& p : ends_) {
      p.port->loses = [this](const CablePort::Frame& frame) {
        said_.push_back(frame);
        return false;
      };
    }
  }
  /// Connects both ends by vectors with this service level and traffic class.
  void connect_with(uint8_t level, uint8_t traffic_class) {
    introduce();
    for (Program& p : ends_) {
      ASSERT_EQ(to_init(p.qp), 0);
      ibv_qp_attr attr = rtr(&p == &a() ? b() : a());
      attr.ah_attr.sl = level;
      attr.ah_attr.grh.traffic_class = traffic_class;
      ASSERT_EQ(ibv_modify_qp(p.qp, &attr, kRtrMask), 0);
      attr = rts();
      ASSERT_EQ(ibv_modify_qp(p.qp, &attr, kRtsMask), 0);
    }
    said_.clear();
  }
  /// Sends a message from one end to the other, which gets it.
  void send_one() {
    ASSERT_EQ(post_receive(b().qp, {b().piece(0, 100)}), 0);
    a().write(0, "tagged");
    ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 6)}), 0);
    run();
    EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(completion(b()).byte_len, 6U);
    EXPECT_EQ(b().text(0, 6), "tagged");
  }
  /// All frames that have left have this tag.
  void expect_tags(size_t at_least, unsigned priority) {
    EXPECT_GE(said_.size(), at_least);
    for (const CablePort::Frame& frame : said_) {
      FrameView view;
      RoceView roce;
      parse_frame(frame, view, roce);
      ASSERT_EQ(view.vlans, 1);
      EXPECT_EQ(view.vlan[0].vid(), kVlan);
      EXPECT_EQ(view.vlan[0].pcp(), priority);
    }
  }
  static CablePort::Frame question(const Program& from, const Program& to,
                                   std::optional<uint16_t> tci) {
    CablePort::Frame frame(kNeighbourFrameBytes);
    const Interface& own = from.nic->interface();
    frame.resize(write_neighbour_question({own.mac, tci}, own.addresses[0].address,
                                          to.nic->interface().addresses[0].address, frame.data()));
    return frame;
  }
  std::vector<CablePort::Frame> said_;
};

class SoftNicWithoutVlan : public SoftNicVlan {
 protected:
  SoftNicWithoutVlan() : SoftNicVlan(std::nullopt) {}
};

TEST_F(SoftNicVlan, FramesOfBothFamiliesHaveItsTag) {
  for (gid_ = 0; gid_ < 2; ++gid_) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    for (Program& p : ends_) ASSERT_EQ(ibv_modify_qp(p.qp, &attr, IBV_QP_STATE), 0);
    connect_with(0, 0);
    send_one();
    expect_tags(2, 0);
  }
}

TEST_F(SoftNicVlan, TheServiceLevelIsThePriority) {
  connect_with(5, 0x60);
  send_one();
  expect_tags(2, 5);
}

TEST_F(SoftNicVlan, WithoutAServiceLevelTheTrafficClassSaysIt) {
  connect_with(0, 0x68);
  send_one();
  expect_tags(2, 3);
}

TEST_F(SoftNicVlan, FramesOfOthersAreNotHeard) {
  for (const auto& tci : {std::optional<uint16_t>(), std::optional<uint16_t>(kVlan + 1),
                          std::optional<uint16_t>(0)}) {
    b().port->arrived.push_back(question(a(), b(), tci));
    run(2);
    EXPECT_TRUE(said_.empty());
  }
  EXPECT_EQ(b().nic->counters().other_vlan, 3U);
  b().port->arrived.push_back(question(a(), b(), uint16_t{0x6000 | kVlan}));
  run(2);
  ASSERT_EQ(said_.size(), 1U);
  expect_tags(1, 3);  // as the question's
  EXPECT_EQ(b().nic->counters().other_vlan, 3U);
}

TEST_F(SoftNicWithoutVlan, HearsWhatIsInNone) {
  b().port->arrived.push_back(question(a(), b(), kVlan));
  run(2);
  EXPECT_TRUE(said_.empty());
  EXPECT_EQ(b().nic->counters().other_vlan, 1U);
  for (const auto& tci : {std::optional<uint16_t>(), std::optional<uint16_t>(0x6000)}) {
    said_.clear();
    b().port->arrived.push_back(question(a(), b(), tci));
    run(2);
    EXPECT_EQ(said_.size(), 1U);
  }
}

TEST_F(SoftNicVlan, APeerIsAskedForInIt) {
  step_ = Duration::ms(100);
  for (const char* text : {"10.8.0.77", "fd00:8::77"}) {
    std::unique_lock lock(a().nic->mutex());
    EXPECT_FALSE(a().nic->resolve(*IpAddress::parse(text), lock));
  }
  EXPECT_EQ(said_.size(), 6U);
  expect_tags(6, 0);
}

TEST_F(SoftNicVlan, ProgramsAreToldOfIt) {
  introduce();
  ibv_qp_attr attr = rtr(b());
  uint8_t mac[6];
  uint16_t vlan = 0;
  ASSERT_EQ(ibv_resolve_eth_l2_from_gid(a().context, &attr.ah_attr, mac, &vlan), 0);
  EXPECT_EQ(vlan, kVlan);
}

TEST_F(SoftNicVlan, TheKernelsFramesHaveNoTag) {
  std::vector<CablePort::Frame> heard;
  b().nic->set_kernel_side([&](std::span<const uint8_t> head, std::span<const uint8_t> rest) {
    heard.emplace_back(head.begin(), head.end())
        .insert(heard.back().end(), rest.begin(), rest.end());
  });
  const CablePort::Frame plain = question(a(), b(), std::nullopt);
  {
    const std::lock_guard lock(a().nic->mutex());
    a().nic->send_from_kernel(plain);
  }
  expect_tags(1, 0);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0].size(), plain.size() + sizeof(VlanTag));
  run(2);
  ASSERT_EQ(heard.size(), 1U);
  EXPECT_EQ(heard[0], plain);
}

}  // namespace
}  // namespace understudy::soft_nic
