// The communication manager over a long time and under a flood of REQs: connections come and go by
// the hundred thousand, memory stays what it was, and what is full says so.
#include <gtest/gtest.h>

#include "tests/cm/rig.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

constexpr int kConnections = 100'000;

/// Opens and closes `count` connections, then waits until all of them are out of time-wait.
void visit(CmRig& rig, int count) {
  for (int i = 0; i < count; ++i) {
    const auto [server, client] = rig.establish();
    ASSERT_TRUE(
        (i % 2 != 0 ? rig.client : rig.server).disconnect(rig.now, i % 2 != 0 ? client : server));
    for (int turns = 0; turns < 2; ++turns) {
      rig.to_server();
      rig.to_client();
    }
    // A thousand of them are in time-wait at a time.
    rig.advance(Duration::ms(10));
    rig.client.take_events();
    rig.server.take_events();
  }
  for (int i = 0; i < 100 && rig.client.connections() + rig.server.connections() > 0; ++i) {
    rig.advance(Duration::s(1));
  }
  rig.client.take_events();
  rig.server.take_events();
  EXPECT_EQ(rig.client.connections(), 0u);
  EXPECT_EQ(rig.server.connections(), 0u);
}

// rules: A9.10
TEST(CmEndurance, ConnectionsOpenedAndClosed) {
  CmRig rig;
  visit(rig, 2000);
  const long long before = live_bytes;
  visit(rig, kConnections);
  EXPECT_LT(std::abs(live_bytes - before), 4096);
  EXPECT_EQ(rig.server.counters().established, kConnections + 2000u);
  EXPECT_EQ(rig.server.counters().timeouts, 0u);
}

TEST(CmEndurance, AFloodOfReqsTakesNoMoreThanTheLimit) {
  CmAgentConfig config = rig_config(0xb);
  config.max_connections = 500;
  CmRig rig(config);
  const auto standing = rig.establish();
  const CmReq base = message_of<CmReq>([&] {
    (void)rig.client.connect(rig.now, rig.request());
    return rig.client.take_sends().front();
  }());
  const auto flood = [&](uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; ++i) {
      CmReq req = base;
      req.local_comm_id = 0x10000 + i;
      req.qpn = 0x1000 + i;
      rig.server.on_mad(rig.now, kServerEnds, mad_with(req, i));
      rig.server.take_sends();
      rig.server.take_events();
    }
  };
  flood(0, 1000);
  EXPECT_EQ(rig.server.connections(), 500u);
  const long long before = live_bytes;
  flood(1000, 100'000);
  EXPECT_EQ(rig.server.connections(), 500u);
  EXPECT_LT(std::abs(live_bytes - before), 4096);
  EXPECT_GE(rig.server.counters().rejected, 100'000u);
  // The connection that stood before still answers.
  EXPECT_TRUE(rig.client.disconnect(rig.now, standing.second));
  rig.to_server();
  EXPECT_EQ(rig.server.take_events().back().kind, CmEventKind::kDisconnected);
}

}  // namespace
}  // namespace understudy
