// Several threads of a program and the helper thread on one soft NIC, in real time: each thread's
// work is done, whether it polls or waits for events. Made for the thread sanitizer.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/tools/soft_nic/dead_end.h"
#include "tools/soft_nic/base/monotonic.h"
#include "tools/soft_nic/device/context.h"
#include "tools/soft_nic/device/driver.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {
namespace {

/// A queue pair that is its own peer.
class Self {
 public:
  Self(Nic& nic, bool waits) : context_(open_context(nic, nullptr)), waits_(waits) {
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    cq_ = ibv_create_cq(context_, 64, nullptr, channel_, 0);
    mr_ = ibv_reg_mr_iova2(pd_, memory_.data(), memory_.size(), address(0),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ibv_qp_init_attr made{};
    made.send_cq = made.recv_cq = cq_;
    made.cap = {16, 1, 1, 1, 0};
    made.qp_type = IBV_QPT_RC;
    qp_ = ibv_create_qp(pd_, &made);
    connect(nic.interface().first_address());
  }
  ~Self() {
    EXPECT_EQ(ibv_destroy_qp(qp_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel_), 0);
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
    EXPECT_EQ(ibv_close_device(context_), 0);
  }

  /// Writes one half of the memory to the other, again and again; false when something failed.
  bool work(int times) {
    for (int i = 0; i < times; ++i) {
      std::memset(memory_.data(), i % 251 + 1, kHalf);
      if (!write() || !done()) return false;
      if (std::memcmp(memory_.data(), memory_.data() + kHalf, kHalf) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kHalf = 20'000;

  uint64_t address(size_t at) const { return reinterpret_cast<uintptr_t>(memory_.data() + at); }
  void connect(const IpAddress& own) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    EXPECT_EQ(ibv_modify_qp(qp_, &attr,
                            IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp_->qp_num;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    std::memcpy(attr.ah_attr.grh.dgid.raw, own.gid().data(), own.gid().size());
    EXPECT_EQ(ibv_modify_qp(qp_, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18;
    attr.retry_cnt = 7;
    EXPECT_EQ(ibv_modify_qp(qp_, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  bool write() {
    ibv_sge piece{address(0), kHalf, mr_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.wr.rdma = {address(kHalf), mr_->rkey};
    if (waits_ && ibv_req_notify_cq(cq_, 0) != 0) return false;
    return ibv_post_send(qp_, &request, &bad) == 0;
  }
  bool done() {
    if (waits_) {
      ibv_cq* of = nullptr;
      void* its = nullptr;
      if (ibv_get_cq_event(channel_, &of, &its) != 0 || of != cq_) return false;
      ibv_ack_cq_events(of, 1);
    }
    ibv_wc wc{};
    int got = 0;
    while ((got = ibv_poll_cq(cq_, 1, &wc)) == 0) {
    }
    return got == 1 && wc.status == IBV_WC_SUCCESS;
  }

  ibv_context* context_;
  const bool waits_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(2 * kHalf);
  ibv_pd* pd_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  ibv_mr* mr_;
  ibv_qp* qp_;
};

class SoftNicThreads : public testing::Test {
 protected:
  static Interface interface() {
    Interface made;
    made.addresses = {{IpAddress::v4(0x0a080001), 32}};
    made.mtu = 4200;
    return made;
  }
  Nic nic_{interface(), 64, Nic::kQueuePairs, std::make_unique<DeadEnd>(), monotonic_now};
  Driver driver_{nic_};
};

TEST_F(SoftNicThreads, EachGetsItsWorkDone) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  constexpr int kThreads = 4;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Self self(nic_, i % 2 == 1);
      right += self.work(100) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads);
}

TEST_F(SoftNicThreads, TheHelperDoesItAllForWhoWaits) {
  Self self(nic_, true);
  EXPECT_TRUE(self.work(100));
}

}  // namespace
}  // namespace understudy::soft_nic
