// Unreliable datagrams between two soft NICs.
#include "tests/tools/soft_nic/rig.h"

namespace understudy::soft_nic {
namespace {

class SoftNicDatagrams : public SoftNicRig {
 protected:
  static constexpr uint32_t kQkey = 0x11111111;
  static constexpr uint32_t kGrh = 40;

  SoftNicDatagrams() {
    for (Program& p : ends_) {
      EXPECT_EQ(ibv_destroy_qp(p.qp), 0);
      ibv_qp_init_attr made{};
      made.send_cq = made.recv_cq = p.cq;
      made.cap = {16, 16, 4, 4, 64};
      made.qp_type = IBV_QPT_UD;
      p.qp = ibv_create_qp(p.pd, &made);
      EXPECT_EQ(to_rts(p.qp), 0);
    }
    introduce();
  }
  static int to_rts(ibv_qp* qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    int failed =
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY);
    attr.qp_state = IBV_QPS_RTR;
    failed |= ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = 5;
    return failed | ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
  }
  ibv_ah* way_to(Program& from, const Program& to) {
    ibv_qp_attr attr = rtr(to);
    return ibv_create_ah(from.pd, &attr.ah_attr);
  }
  int send(Program& from, ibv_ah* ah, const Program& to, std::vector<ibv_sge> pieces,
           uint32_t qkey = kQkey, ibv_wr_opcode opcode = IBV_WR_SEND) {
    return post(from.qp, opcode, std::move(pieces), 3, IBV_SEND_SIGNALED, [&](ibv_send_wr& w) {
      w.wr.ud = {ah, to.qp->qp_num, qkey};
      w.imm_data = htobe32(77);
    });
  }
};

TEST_F(SoftNicDatagrams, OneArrivesAndItsSenderCanBeAnswered) {
  ibv_ah* there = way_to(a(), b());
  ASSERT_NE(there, nullptr);
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 20), b().piece(100, 200)}), 0);
  ASSERT_EQ(post_receive(a().qp, {a().piece(500, 200)}), 0);
  a().write(0, "hello");
  ASSERT_EQ(send(a(), there, b(), {a().piece(0, 2), a().piece(2, 3)}, kQkey, IBV_WR_SEND_WITH_IMM),
            0);
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);  // sent is done
  run();
  ibv_wc got = completion(b());
  EXPECT_EQ(got.byte_len, kGrh + 5);
  EXPECT_EQ(got.src_qp, a().qp->qp_num);
  EXPECT_EQ(got.wc_flags, static_cast<unsigned>(IBV_WC_GRH) | IBV_WC_WITH_IMM);
  EXPECT_EQ(got.imm_data, htobe32(77));
  EXPECT_EQ(got.sl, 0xa);  // IPv4 and UDP; else UCX looks for its own GID in another place
  EXPECT_EQ(b().text(120, 5), "hello");

  ibv_grh header;
  std::memcpy(&header, (b().text(0, 20) + b().text(100, 20)).data(), sizeof header);
  ibv_ah* back = ibv_create_ah_from_wc(b().pd, &got, &header, 1);
  ASSERT_NE(back, nullptr);
  b().write(0, "you");
  ASSERT_EQ(send(b(), back, a(), {b().piece(0, 3)}), 0);
  run();
  EXPECT_EQ(a().text(540, 3), "you");
  EXPECT_EQ(ibv_dealloc_pd(a().pd), EBUSY);
  EXPECT_EQ(ibv_destroy_ah(there), 0);
  EXPECT_EQ(ibv_destroy_ah(back), 0);
}

TEST_F(SoftNicDatagrams, WithoutReceiveOrQkeyTheyAreLost) {
  ibv_ah* there = way_to(a(), b());
  ASSERT_EQ(send(a(), there, b(), {a().piece(0, 5)}), 0);
  run();
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 200)}), 0);
  ASSERT_EQ(send(a(), there, b(), {a().piece(0, 5)}, kQkey + 1), 0);
  run();
  EXPECT_TRUE(completions(b()).empty());
  EXPECT_EQ(completions(a()).size(), 2U);
  ASSERT_EQ(send(a(), there, b(), {a().piece(0, 5)}), 0);
  run();
  EXPECT_EQ(completion(b()).byte_len, kGrh + 5);
  EXPECT_EQ(ibv_destroy_ah(there), 0);
}

TEST_F(SoftNicDatagrams, AReceiveThatIsTooShortFails) {
  ibv_ah* there = way_to(a(), b());
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, kGrh + 4)}), 0);
  ASSERT_EQ(send(a(), there, b(), {a().piece(0, 5)}), 0);
  run();
  EXPECT_EQ(completion(b()).status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(ibv_destroy_ah(there), 0);
}

TEST_F(SoftNicDatagrams, WhatCannotBeSentIsRefused) {
  ibv_ah* there = way_to(a(), b());
  EXPECT_EQ(send(a(), there, b(), {a().piece(0, 4097)}), EINVAL);
  EXPECT_EQ(send(a(), nullptr, b(), {a().piece(0, 4)}), EINVAL);
  EXPECT_EQ(send(a(), there, b(), {a().piece(0, 4)}, kQkey, IBV_WR_RDMA_WRITE), EINVAL);
  ibv_qp_attr attr = rtr(b());
  attr.ah_attr.port_num = 2;
  errno = 0;
  EXPECT_EQ(ibv_create_ah(a().pd, &attr.ah_attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_ah(there), 0);
}

TEST_F(SoftNicDatagrams, TheOwnAddressIsReachedToo) {
  ibv_ah* there = way_to(a(), a());
  ASSERT_EQ(post_receive(a().qp, {a().piece(100, 200)}), 0);
  a().write(0, "me");
  ASSERT_EQ(send(a(), there, a(), {a().piece(0, 2)}), 0);
  run();
  EXPECT_EQ(a().text(140, 2), "me");
  EXPECT_EQ(ibv_destroy_ah(there), 0);
}

}  // namespace
}  // namespace understudy::soft_nic
