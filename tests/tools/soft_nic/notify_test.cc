// When an armed completion queue tells its channel.
#include <poll.h>

#include "tests/tools/soft_nic/rig.h"

namespace understudy::soft_nic {
namespace {

class SoftNicNotify : public SoftNicRig {
 protected:
  static bool told(const Program& p) {
    pollfd fd{p.channel->fd, POLLIN, 0};
    return poll(&fd, 1, 0) == 1;
  }
  /// Takes an event and acknowledges it.
  static void take(const Program& p) {
    ibv_cq* of = nullptr;
    void* its = nullptr;
    ASSERT_EQ(ibv_get_cq_event(p.channel, &of, &its), 0);
    EXPECT_EQ(of, p.cq);
    ibv_ack_cq_events(of, 1);
  }
  /// One completion at `a`.
  void write() {
    ASSERT_EQ(post(a().qp, IBV_WR_RDMA_WRITE, {}, 1, IBV_SEND_SIGNALED), 0);
    run();
  }
  /// One completion at `b`.
  void send(unsigned flags) {
    ASSERT_EQ(post_receive(b().qp, {b().piece(0, 8)}), 0);
    ASSERT_EQ(post(a().qp, IBV_WR_SEND, {}, 1, flags), 0);
    run();
  }
};

TEST_F(SoftNicNotify, AnArmedQueueTellsItsChannelOnce) {
  connect();
  ASSERT_EQ(ibv_req_notify_cq(a().cq, 0), 0);
  EXPECT_FALSE(told(a()));
  write();
  write();
  ASSERT_TRUE(told(a()));
  take(a());
  EXPECT_FALSE(told(a()));
  EXPECT_EQ(completions(a()).size(), 2U);
}

TEST_F(SoftNicNotify, OnlySolicitedOnesTellWhereThatIsAskedFor) {
  connect();
  ASSERT_EQ(ibv_req_notify_cq(b().cq, 1), 0);
  send(0);
  EXPECT_FALSE(told(b()));
  send(IBV_SEND_SOLICITED);
  EXPECT_TRUE(told(b()));
}

TEST_F(SoftNicNotify, WhatCameBeforeTheQueueWasArmedTellsToo) {
  // Programs that find nothing, arm and sleep would wait for ever for what came in between.
  connect();
  write();
  ASSERT_EQ(ibv_req_notify_cq(a().cq, 0), 0);
  ASSERT_TRUE(told(a()));
  take(a());
  EXPECT_EQ(completions(a()).size(), 1U);
  ASSERT_EQ(ibv_req_notify_cq(a().cq, 0), 0);
  EXPECT_FALSE(told(a()));  // it was polled
  write();
  EXPECT_TRUE(told(a()));
}

TEST_F(SoftNicNotify, WhatAnEventToldOfIsNotToldAgain) {
  // Programs take an event, arm, and poll then.
  connect();
  ASSERT_EQ(ibv_req_notify_cq(a().cq, 0), 0);
  write();
  take(a());
  ASSERT_EQ(ibv_req_notify_cq(a().cq, 0), 0);
  EXPECT_FALSE(told(a()));
  EXPECT_EQ(completions(a()).size(), 1U);
  write();
  EXPECT_TRUE(told(a()));
}

TEST_F(SoftNicNotify, WhatCameBeforeTellsOnlyIfItWasSolicitedWhereThatIsAskedFor) {
  connect();
  send(0);
  ASSERT_EQ(ibv_req_notify_cq(b().cq, 1), 0);
  EXPECT_FALSE(told(b()));
  send(IBV_SEND_SOLICITED);
  ASSERT_TRUE(told(b()));
  take(b());
  EXPECT_EQ(completions(b()).size(), 2U);
  send(IBV_SEND_SOLICITED);
  send(0);
  ASSERT_EQ(ibv_req_notify_cq(b().cq, 1), 0);
  EXPECT_TRUE(told(b()));
}

}  // namespace
}  // namespace understudy::soft_nic
