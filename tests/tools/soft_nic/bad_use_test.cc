// What programs do wrong, and what they are told: the errnos of rdma-core, the statuses of
// completions, and events.
#include <poll.h>

#include <algorithm>

#include "tests/tools/soft_nic/rig.h"

namespace understudy::soft_nic {
namespace {

class SoftNicBadUse : public SoftNicRig {
 protected:
  /// The only asynchronous event that is there, acknowledged; -1 for none.
  static int event(Program& p) {
    pollfd fd{p.context->async_fd, POLLIN, 0};
    if (poll(&fd, 1, 0) != 1) return -1;
    ibv_async_event event;
    EXPECT_EQ(ibv_get_async_event(p.context, &event), 0);
    ibv_ack_async_event(&event);
    return event.event_type;
  }
  static ibv_qp_state state(ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &made), 0);
    EXPECT_EQ(attr.qp_state, qp->state);
    return attr.qp_state;
  }
  int write(uint32_t bytes, uint32_t rkey, uint64_t at, uint64_t id = 1) {
    return post(a().qp, IBV_WR_RDMA_WRITE, {a().piece(0, bytes)}, id, IBV_SEND_SIGNALED,
                [&](ibv_send_wr& w) {
                  w.wr.rdma.remote_addr = at;
                  w.wr.rdma.rkey = rkey;
                });
  }
};

TEST_F(SoftNicBadUse, WhatIsInUseIsNotDestroyed) {
  EXPECT_EQ(ibv_dealloc_pd(a().pd), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(a().cq), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(a().channel), EBUSY);
}

TEST_F(SoftNicBadUse, ObjectsBeyondTheDevicesLimitsAreRefused) {
  errno = 0;
  EXPECT_EQ(ibv_create_cq(a().context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(a().context, 10, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_device_attr limits;
  ASSERT_EQ(ibv_query_device(a().context, &limits), 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = a().cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_wr = static_cast<uint32_t>(limits.max_qp_wr) + 1;
  errno = 0;
  EXPECT_EQ(ibv_create_qp(a().pd, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.cap.max_send_wr = 1;
  attr.qp_type = IBV_QPT_RAW_PACKET;
  errno = 0;
  EXPECT_EQ(ibv_create_qp(a().pd, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SoftNicBadUse, RegionsMustMakeSense) {
  const auto refused = [&](void* addr, unsigned access) {
    errno = 0;
    EXPECT_EQ(ibv_reg_mr_iova2(a().pd, addr, 64, 0, access), nullptr);
    return errno;
  };
  EXPECT_EQ(refused(nullptr, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  EXPECT_EQ(refused(a().memory.data(), IBV_ACCESS_REMOTE_WRITE), EINVAL);  // without local write
  EXPECT_EQ(refused(a().memory.data(), IBV_ACCESS_ON_DEMAND), EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_reg_dmabuf_mr(a().pd, 0, 64, 0, 0, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SoftNicBadUse, StatesFollowTheirOrderWithTheirAttributes) {
  ibv_qp_attr attr = rtr(b());
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), EINVAL);  // not from RESET
  attr = rts();
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtsMask), EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);  // more is needed
  attr.port_num = 2;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kInit), EINVAL);  // there is one port
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kInit | IBV_QP_TIMEOUT), EINVAL);  // does not belong here
  EXPECT_EQ(state(a().qp), IBV_QPS_RESET);
  ASSERT_EQ(to_init(a().qp), 0);
  introduce();
  attr = rtr(b());
  attr.ah_attr.is_global = 0;
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), EINVAL);
  attr = rtr(b());
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask & ~IBV_QP_PATH_MTU), EINVAL);
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), 0);
  EXPECT_EQ(state(a().qp), IBV_QPS_RTR);
}

TEST_F(SoftNicBadUse, APeerThatNobodyKnowsTakesTooLong) {
  ASSERT_EQ(to_init(a().qp), 0);
  ibv_qp_attr attr = rtr(b());
  attr.ah_attr.grh.dgid.raw[15] = 77;
  step_ = Duration::ms(100);
  EXPECT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), ETIMEDOUT);
  EXPECT_EQ(state(a().qp), IBV_QPS_INIT);
}

TEST_F(SoftNicBadUse, WorkInTheWrongStateIsRefusedAtOnce) {
  EXPECT_EQ(post(a().qp, IBV_WR_SEND, {}), EINVAL);
  EXPECT_EQ(post_receive(a().qp, {}), EINVAL);
  ASSERT_EQ(to_init(a().qp), 0);
  EXPECT_EQ(post(a().qp, IBV_WR_SEND, {}), EINVAL);
  EXPECT_EQ(post_receive(a().qp, {}), 0);
}

TEST_F(SoftNicBadUse, WhatCannotBeQueuedIsRefusedAtOnce) {
  connect();
  const std::vector<ibv_sge> five(5, a().piece(0, 1));
  EXPECT_EQ(post(a().qp, IBV_WR_SEND, five), EINVAL);
  EXPECT_EQ(post(a().qp, IBV_WR_LOCAL_INV, {}), EINVAL);
  EXPECT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 65)}, 1, IBV_SEND_INLINE), EINVAL);
  EXPECT_EQ(post(a().qp, IBV_WR_RDMA_READ, {a().piece(0, 8)}, 1, IBV_SEND_INLINE), EINVAL);
  b().port->loses = [](const CablePort::Frame&) { return true; };  // so nothing is finished
  for (int i = 0; i < 16; ++i) ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {}), 0);
  EXPECT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {}), ENOMEM);
  for (int i = 0; i < 16; ++i) ASSERT_EQ(post_receive(a().qp, {}), 0);
  EXPECT_EQ(post_receive(a().qp, {}), ENOMEM);
}

TEST_F(SoftNicBadUse, AWrongLocalKeyFailsInItsTurn) {
  connect();
  ASSERT_EQ(write(8, b().mr->rkey, b().address(0), 1), 0);
  ibv_sge wrong = a().piece(0, 8);
  wrong.lkey += 1;
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {wrong}, 2), 0);
  ASSERT_EQ(write(8, b().mr->rkey, b().address(0), 3), 0);
  run();
  const auto all = completions(a());
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(all[1].wr_id, 2U);
  EXPECT_EQ(all[1].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(all[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(state(a().qp), IBV_QPS_ERR);
}

TEST_F(SoftNicBadUse, PiecesMustLieInTheirRegion) {
  connect();
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(Program::kBytes - 4, 8)}), 0);
  EXPECT_EQ(completion(a()).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(SoftNicBadUse, AWrongRemoteKeyEndsBothSides) {
  connect();
  EXPECT_EQ(event(b()), -1);
  ASSERT_EQ(write(8, b().mr->rkey + 1, b().address(0)), 0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(state(a().qp), IBV_QPS_ERR);
  EXPECT_EQ(state(b().qp), IBV_QPS_ERR);
  EXPECT_EQ(event(b()), IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event(a()), -1);
}

TEST_F(SoftNicBadUse, RegionsOfAnotherDomainAreNotThere) {
  ibv_pd* other = ibv_alloc_pd(b().context);
  ibv_mr* mr = ibv_reg_mr_iova2(other, b().memory.data(), 64, b().address(0), kAccess);
  ASSERT_NE(mr, nullptr);
  connect();
  ASSERT_EQ(write(8, mr->rkey, b().address(0)), 0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(SoftNicBadUse, AMessageTooLongForItsReceive) {
  connect();
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 4)}, 9), 0);
  ASSERT_EQ(post_receive(b().qp, {b().piece(8, 4)}, 10), 0);
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 5)}), 0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_REM_INV_REQ_ERR);
  const auto got = completions(b());
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].wr_id, 9U);
  EXPECT_EQ(got[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(got[1].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(SoftNicBadUse, AReceiveWithAWrongKey) {
  connect();
  ibv_sge wrong = b().piece(0, 8);
  wrong.lkey ^= 0x100;
  ASSERT_EQ(post_receive(b().qp, {wrong}), 0);
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 5)}), 0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(completion(b()).status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(SoftNicBadUse, ARegionThatGoesWhileItIsUsedEndsItsWork) {
  connect();
  ibv_mr* mr =
      ibv_reg_mr_iova2(a().pd, a().memory.data(), 64, a().address(0), IBV_ACCESS_LOCAL_WRITE);
  b().port->loses = [](const CablePort::Frame&) { return true; };  // so nothing is finished
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {{a().address(0), 0, mr->lkey}}, 1), 0);
  ibv_sge piece{a().address(0), 8, mr->lkey};
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_READ, {piece}, 2, IBV_SEND_SIGNALED,
                 [&](ibv_send_wr& w) {
                   w.wr.rdma.remote_addr = b().address(0);
                   w.wr.rdma.rkey = b().mr->rkey;
                 }),
            0);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(state(a().qp), IBV_QPS_ERR);
  EXPECT_EQ(completions(a()).size(), 2U);
  EXPECT_EQ(event(a()), IBV_EVENT_QP_FATAL);
}

TEST_F(SoftNicBadUse, APeerThatIsGoneIsNoticed) {
  connect();
  ASSERT_EQ(ibv_destroy_qp(b().qp), 0);
  b().qp = nullptr;
  ASSERT_EQ(write(8, b().mr->rkey, b().address(0)), 0);
  run(3000);
  EXPECT_EQ(completion(a()).status, IBV_WC_RETRY_EXC_ERR);
}

TEST_F(SoftNicBadUse, ErrorFlushesAndResetForgets) {
  connect();
  ASSERT_EQ(post_receive(a().qp, {a().piece(0, 8)}, 5), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(a().qp, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(post(a().qp, IBV_WR_SEND, {}, 6), 0);
  EXPECT_EQ(post_receive(a().qp, {}, 7), 0);
  const auto flushed = completions(a());
  ASSERT_EQ(flushed.size(), 3U);
  EXPECT_TRUE(std::all_of(flushed.begin(), flushed.end(),
                          [](const ibv_wc& wc) { return wc.status == IBV_WC_WR_FLUSH_ERR; }));
  ASSERT_EQ(post_receive(a().qp, {}, 8), 0);
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(a().qp, &attr, IBV_QP_STATE), 0);
  EXPECT_TRUE(completions(a()).empty());
  EXPECT_EQ(event(a()), -1);
  EXPECT_EQ(to_init(a().qp), 0);  // as new
}

TEST_F(SoftNicBadUse, ACompletionQueueThatIsTooSmallSaysSo) {
  ASSERT_EQ(ibv_destroy_qp(a().qp), 0);
  ASSERT_EQ(ibv_resize_cq(a().cq, 2), 0);
  a().qp = make_qp(a(), nullptr);
  connect();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(write(0, 0, 0, i), 0);
  run();
  EXPECT_EQ(event(a()), IBV_EVENT_CQ_ERR);
  EXPECT_EQ(completions(a()).size(), 2U);
  ibv_wc wc;
  EXPECT_LT(ibv_poll_cq(a().cq, 1, &wc), 0);
}

TEST_F(SoftNicBadUse, EventsOfWhatIsGoneAreGone) {
  ibv_cq* small = ibv_create_cq(a().context, 1, nullptr, nullptr, 0);
  std::swap(a().cq, small);
  ASSERT_EQ(ibv_destroy_qp(a().qp), 0);
  a().qp = make_qp(a(), nullptr);
  connect();
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(write(0, 0, 0, i), 0);
  ASSERT_EQ(write(8, b().mr->rkey + 1, b().address(0)), 0);
  run();
  ASSERT_EQ(ibv_destroy_qp(a().qp), 0);
  ASSERT_EQ(ibv_destroy_qp(b().qp), 0);
  a().qp = b().qp = nullptr;
  std::swap(a().cq, small);
  ASSERT_EQ(ibv_destroy_cq(small), 0);
  EXPECT_EQ(event(a()), -1);
  EXPECT_EQ(event(b()), -1);
}

}  // namespace
}  // namespace understudy::soft_nic
