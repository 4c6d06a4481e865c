// What a soft NIC does with work: every kind of request between two of them, by the calls that
// programs make.
#include "tests/tools/soft_nic/rig.h"

namespace understudy::soft_nic {
namespace {

using SoftNicWork = SoftNicRig;

TEST_F(SoftNicWork, ASendGoesFromPiecesToPieces) {
  connect();
  a().write(0, "abc");
  a().write(100, "defgh");
  ASSERT_EQ(post_receive(b().qp, {b().piece(10, 2), b().piece(50, 100)}), 0);
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 3), a().piece(100, 5)}, 7), 0);
  run();
  EXPECT_EQ(b().text(10, 2) + b().text(50, 6), "abcdefgh");
  const ibv_wc sent = completion(a()), got = completion(b());
  EXPECT_EQ(sent.wr_id, 7U);
  EXPECT_EQ(sent.status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent.opcode, IBV_WC_SEND);
  EXPECT_EQ(sent.qp_num, a().qp->qp_num);
  EXPECT_EQ(got.wr_id, 100U);
  EXPECT_EQ(got.opcode, IBV_WC_RECV);
  EXPECT_EQ(got.byte_len, 8U);
  EXPECT_EQ(got.qp_num, b().qp->qp_num);
  EXPECT_EQ(got.src_qp, a().qp->qp_num);
}

TEST_F(SoftNicWork, ALongWriteArrivesThoughTheWindowIsSmall) {
  connect();
  constexpr uint32_t kBytes = 500'000;  // 489 packets, the window is 64
  for (size_t i = 0; i < kBytes; ++i) a().memory[i] = static_cast<uint8_t>(i * 7 + i / 251);
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {a().piece(0, kBytes)}, 1, IBV_SEND_SIGNALED,
                 [&](ibv_send_wr& w) {
                   w.wr.rdma.remote_addr = b().address(8);
                   w.wr.rdma.rkey = b().mr->rkey;
                 }),
            0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(b().text(8, kBytes) == a().text(0, kBytes));
  EXPECT_TRUE(completions(b()).empty());
}

TEST_F(SoftNicWork, ItAllArrivesThoughFramesAreLost) {
  connect();
  int frame = 0;
  a().port->loses = [&](const CablePort::Frame&) { return ++frame % 41 == 0; };
  b().port->loses = [&](const CablePort::Frame&) { return ++frame % 23 == 0; };
  for (size_t i = 0; i < 100'000; ++i) a().memory[i] = static_cast<uint8_t>(i % 253);
  const auto to_b = [&](ibv_send_wr& w) {
    w.wr.rdma.remote_addr = b().address(0);
    w.wr.rdma.rkey = b().mr->rkey;
  };
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {a().piece(0, 100'000)}, 1, IBV_SEND_SIGNALED, to_b),
            0);
  ASSERT_EQ(
      post(a().qp, IBV_WR_RDMA_READ, {a().piece(500'000, 100'000)}, 2, IBV_SEND_SIGNALED, to_b), 0);
  run(5000);
  const auto done = completions(a());
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[1].status, IBV_WC_SUCCESS);
  EXPECT_TRUE(a().text(500'000, 100'000) == a().text(0, 100'000));
}

TEST_F(SoftNicWork, AnswersThatWaitBehindOtherFramesComeBeforeTimers) {
  connect();
  a().port->burst = 16;
  const auto to = [](Program& peer) {
    return [&peer](ibv_send_wr& w) {
      w.wr.rdma.remote_addr = peer.address(500'000);
      w.wr.rdma.rkey = peer.mr->rkey;
    };
  };
  const auto move = [&](Program& p) {
    const std::lock_guard lock(p.nic->mutex());
    p.nic->progress(tick());
  };
  ASSERT_EQ(
      post(b().qp, IBV_WR_RDMA_WRITE, {b().piece(0, 48 << 10)}, 2, IBV_SEND_SIGNALED, to(a())), 0);
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {a().piece(0, 64)}, 1, IBV_SEND_SIGNALED, to(b())), 0);
  move(b());  // its ACK stands behind 48 frames of its own
  ASSERT_GT(a().port->arrived.size(), 48U);
  now_ += Duration::ms(2);  // longer than the timeout: no CPU for this program
  move(a());
  EXPECT_EQ(a().nic->rc_counters()[static_cast<size_t>(RcEvent::kTimeout)], 0U);
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
}

TEST_F(SoftNicWork, AReadComesIntoPieces) {
  connect();
  b().write(1000, "0123456789");
  ASSERT_EQ(
      post(a().qp, IBV_WR_RDMA_READ, {a().piece(0, 4), a().piece(20, 6)}, 3, IBV_SEND_SIGNALED,
           [&](ibv_send_wr& w) {
             w.wr.rdma.remote_addr = b().address(1000);
             w.wr.rdma.rkey = b().mr->rkey;
           }),
      0);
  run();
  const ibv_wc wc = completion(a());
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, 10U);
  EXPECT_EQ(a().text(0, 4) + a().text(20, 6), "0123456789");
}

TEST_F(SoftNicWork, AtomicsChangeThePeerAndGiveWhatWasThere) {
  connect();
  const auto number = [](Program& p, size_t at) {
    uint64_t v;
    std::memcpy(&v, p.memory.data() + at, sizeof v);
    return v;
  };
  b().memory[64] = 40;
  const auto atomic = [&](ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap) {
    return post(a().qp, opcode, {a().piece(0, 8)}, 4, IBV_SEND_SIGNALED, [&](ibv_send_wr& w) {
      w.wr.atomic = {b().address(64), compare_add, swap, b().mr->rkey};
    });
  };
  ASSERT_EQ(atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0), 0);
  run();
  EXPECT_EQ(completion(a()).opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(number(a(), 0), 40U);
  EXPECT_EQ(number(b(), 64), 42U);
  ASSERT_EQ(atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7), 0);
  run();
  EXPECT_EQ(completion(a()).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(number(a(), 0), 42U);
  EXPECT_EQ(number(b(), 64), 7U);
}

TEST_F(SoftNicWork, InlineDataMayChangeAtOnceAndNeedNoKey) {
  connect();
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 64)}), 0);
  char text[] = "now";
  ASSERT_EQ(post(a().qp, IBV_WR_SEND_WITH_IMM, {{reinterpret_cast<uintptr_t>(text), 3, 0}}, 1,
                 IBV_SEND_INLINE, [](ibv_send_wr& w) { w.imm_data = htobe32(0x01020304); }),
            0);
  std::memcpy(text, "not", 3);
  run();
  EXPECT_EQ(b().text(0, 3), "now");
  const ibv_wc got = completion(b());
  EXPECT_EQ(got.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(got.imm_data, htobe32(0x01020304));
  EXPECT_TRUE(completions(a()).empty());  // it asked for no completion
}

TEST_F(SoftNicWork, AQueuePairHasItsPiecesRoomForInlineDataUnasked) {
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = a().cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap.max_send_sge = 3;
  ibv_qp* qp = ibv_create_qp(a().pd, &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(attr.cap.max_inline_data, 3 * 16U);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(SoftNicWork, ASendWithoutAReceiveWaitsForOne) {
  connect();
  a().write(0, "late");
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 4)}), 0);
  run();
  EXPECT_TRUE(completions(a()).empty());
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 64)}), 0);
  run(2000);
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b().text(0, 4), "late");
}

TEST_F(SoftNicWork, QueuePairsShareReceives) {
  ibv_srq_init_attr made{};
  made.attr = {4, 1, 0};
  ibv_srq* srq = ibv_create_srq(b().pd, &made);
  ASSERT_NE(srq, nullptr);
  ASSERT_EQ(ibv_destroy_qp(b().qp), 0);
  b().qp = make_qp(b(), srq);
  connect();
  ibv_sge piece = b().piece(0, 64);
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = 55;
  request.sg_list = &piece;
  request.num_sge = 1;
  EXPECT_EQ(post_receive(b().qp, {piece}), EINVAL);
  ASSERT_EQ(ibv_post_srq_recv(srq, &request, &bad), 0);
  a().write(0, "ours");
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 4)}), 0);
  run();
  EXPECT_EQ(completion(b()).wr_id, 55U);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(b().qp), 0);
  b().qp = nullptr;
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(SoftNicWork, ExtendedPostsGoTogether) {
  ASSERT_EQ(ibv_destroy_qp(a().qp), 0);
  a().qp = make_qp(a(), nullptr, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_IMM);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(a().qp);
  ASSERT_NE(extended, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(b().qp), nullptr);
  connect();
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 64)}), 0);
  a().write(0, "written");
  ibv_wr_start(extended);
  extended->wr_id = 1;
  extended->wr_flags = 0;
  ibv_wr_rdma_write(extended, b().mr->rkey, b().address(200));
  ibv_wr_set_sge(extended, a().mr->lkey, a().address(0), 7);
  extended->wr_id = 2;
  extended->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send_imm(extended, 9);
  char text[] = "inline";
  ibv_wr_set_inline_data(extended, text, 6);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  run();
  EXPECT_EQ(completion(a()).wr_id, 2U);
  EXPECT_EQ(completion(b()).imm_data, 9U);
  EXPECT_EQ(b().text(0, 6), "inline");
  EXPECT_EQ(b().text(200, 7), "written");
}

TEST_F(SoftNicWork, AnAbortedBatchIsForgotten) {
  ASSERT_EQ(ibv_destroy_qp(a().qp), 0);
  a().qp = make_qp(a(), nullptr, IBV_QP_EX_WITH_RDMA_WRITE);
  connect();
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(a().qp);
  ibv_wr_start(extended);
  ibv_wr_rdma_write(extended, b().mr->rkey, b().address(0));
  ibv_wr_abort(extended);
  ibv_wr_start(extended);
  EXPECT_EQ(ibv_wr_complete(extended), 0);
  run();
  EXPECT_TRUE(completions(a()).empty());
}

TEST_F(SoftNicWork, AThreadGathersForSeveralQueuePairs) {
  constexpr uint64_t kPosts = IBV_QP_EX_WITH_SEND;
  ASSERT_EQ(ibv_destroy_qp(a().qp), 0);
  a().qp = make_qp(a(), nullptr, kPosts);
  ibv_qp* other = make_qp(a(), nullptr, kPosts);
  connect();
  ASSERT_EQ(post_receive(b().qp, {b().piece(0, 64)}), 0);
  a().write(0, "kept");
  ibv_qp_ex* first = ibv_qp_to_qp_ex(other);
  ibv_qp_ex* second = ibv_qp_to_qp_ex(a().qp);
  ibv_wr_start(first);
  ibv_wr_start(second);
  ibv_wr_send(second);
  ibv_wr_abort(first);
  ibv_wr_set_sge(second, a().mr->lkey, a().address(0), 4);
  ASSERT_EQ(ibv_wr_complete(second), 0);
  run();
  EXPECT_EQ(completion(b()).byte_len, 4U);
  EXPECT_EQ(b().text(0, 4), "kept");
  EXPECT_EQ(ibv_destroy_qp(other), 0);
}

TEST_F(SoftNicWork, AnAddressOfItsOwnIsReachedWithoutTheCable) {
  a().port->loses = [](const CablePort::Frame&) { return true; };
  ASSERT_EQ(to_init(a().qp), 0);
  ibv_qp_attr attr = rtr(a());  // to itself
  ASSERT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), 0);
  attr = rts();
  ASSERT_EQ(ibv_modify_qp(a().qp, &attr, kRtsMask), 0);
  a().write(0, "self");
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {a().piece(0, 4)}, 1, IBV_SEND_SIGNALED,
                 [&](ibv_send_wr& w) {
                   w.wr.rdma.remote_addr = a().address(300);
                   w.wr.rdma.rkey = a().mr->rkey;
                 }),
            0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(a().text(300, 4), "self");
}

TEST_F(SoftNicWork, WhatIsOfAnotherProgramOnItsAddressLeavesByAPortThatIsShared) {
  a().port->is_shared = true;
  std::vector<CablePort::Frame> left;
  a().port->loses = [&](const CablePort::Frame& frame) {
    left.push_back(frame);
    return true;
  };
  ASSERT_EQ(to_init(a().qp), 0);
  ibv_qp_attr attr = rtr(a());
  attr.dest_qp_num = b().qp->qp_num;  // a number that is none of a's
  ASSERT_EQ(ibv_modify_qp(a().qp, &attr, kRtrMask), 0);
  attr = rts();
  ASSERT_EQ(ibv_modify_qp(a().qp, &attr, kRtsMask), 0);
  ASSERT_EQ(post(a().qp, IBV_WR_SEND, {a().piece(0, 4)}), 0);
  run(1);
  EXPECT_EQ(left.size(), 1U);
}

class SoftNicUnreliable : public SoftNicRig {
 protected:
  SoftNicUnreliable() {
    for (Program* p : {&a(), &b()}) {
      EXPECT_EQ(ibv_destroy_qp(p->qp), 0);
      p->qp = make_qp(*p, nullptr, 0, IBV_QPT_UC);
    }
  }
  void begin() {
    introduce();
    for (Program* p : {&a(), &b()}) {
      ASSERT_EQ(to_init(p->qp), 0);
      ibv_qp_attr attr = rtr(p == &a() ? b() : a());
      EXPECT_EQ(ibv_modify_qp(p->qp, &attr, kRtrMask), EINVAL);  // what only reliable ones have
      constexpr int kRtr =
          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
      ASSERT_EQ(ibv_modify_qp(p->qp, &attr, kRtr), 0);
      attr = rts();
      ASSERT_EQ(ibv_modify_qp(p->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    }
  }
};

TEST_F(SoftNicUnreliable, MessagesComeWholeOrNotAtAll) {
  begin();
  int frames = 0;
  bool answered = false;
  a().port->loses = [&](const CablePort::Frame&) { return ++frames == 5; };
  b().port->loses = [&](const CablePort::Frame&) { return answered = true; };
  for (int i = 0; i < 3; ++i) ASSERT_EQ(post_receive(b().qp, {b().piece(0, 4096)}), 0);
  for (uint32_t i = 0; i < 3; ++i) {  // three packets each; the fifth is lost
    ASSERT_EQ(post(a().qp, IBV_WR_SEND_WITH_IMM, {a().piece(0, 3000)}, i, IBV_SEND_SIGNALED,
                   [&](ibv_send_wr& w) { w.imm_data = i; }),
              0);
  }
  run();
  const auto sent = completions(a()), got = completions(b());
  ASSERT_EQ(sent.size(), 3U);
  for (const ibv_wc& wc : sent) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].imm_data, 0U);
  EXPECT_EQ(got[1].imm_data, 2U);
  EXPECT_EQ(got[1].byte_len, 3000U);
  EXPECT_FALSE(answered);
}

TEST_F(SoftNicUnreliable, WritesGoWithoutAnAnswerAndReadsAreRefused) {
  begin();
  a().write(0, "written");
  const auto to_b = [&](ibv_send_wr& w) {
    w.wr.rdma.remote_addr = b().address(64);
    w.wr.rdma.rkey = b().mr->rkey;
  };
  ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {a().piece(0, 7)}, 1, IBV_SEND_SIGNALED, to_b), 0);
  run();
  EXPECT_EQ(completion(a()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(b().text(64, 7), "written");
  EXPECT_EQ(post(a().qp, IBV_WR_RDMA_READ, {a().piece(0, 7)}, 1, IBV_SEND_SIGNALED, to_b), EINVAL);
  EXPECT_EQ(post(a().qp, IBV_WR_SEND_WITH_INV, {a().piece(0, 7)}), EINVAL);
}

}  // namespace
}  // namespace understudy::soft_nic
