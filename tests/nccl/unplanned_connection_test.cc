// Connections that no plan knows always go on.
#include "dataplane/nccl/unplanned_connection.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tests/rigs/posting_host.h"

namespace understudy {
namespace {

struct Rig {
  explicit Rig(bool real_sends) : regions(1), connection(real_sends, traffic) {
    QpConfig config;
    config.node = 1;
    qp = std::make_unique<Qp>(config, regions, counters, connection);
    connection.attach(host);
    fifo.resize(layout.fifo_bytes());
    staging.resize(size_t{layout.slots} * layout.entry_bytes);
    if (real_sends) {
      connection.receiver().connect({.qps = {{qp.get()}},
                                     .layout = layout,
                                     .fifo_va = 0x1000,
                                     .fifo_rkey = 1,
                                     .buffer_va = 0x100000000,
                                     .buffer_rkey = 2,
                                     .slots = 1,
                                     .slot_bytes = UnplannedConnection::kCapacity,
                                     .sender_rank = 9,
                                     .staging = staging.data()});
    } else {
      connection.sender().connect({.qps = {{qp.get()}},
                                   .layout = layout,
                                   .fifo = fifo.data(),
                                   .collective = true,
                                   .violations = &traffic.violations,
                                   .registered = &traffic.registered});
    }
  }
  /// The real rank's credit for message k.
  void credit(uint64_t k, uint64_t address, uint64_t size) {
    CtsEntry{address, size, 7, 1, 0, k + 1}.encode(
        layout, fifo.data() + k % layout.slots * layout.stride());
    connection.on_received(Time(), *qp, Received{.is_write = true, .length = 64});
  }
  void data(uint32_t bytes) {
    connection.on_received(Time(), *qp,
                           Received{.is_write = true, .has_imm = true, .length = bytes});
  }

  CtsLayout layout;
  RegionTable regions;
  RcCounters counters{};
  UnplannedTraffic traffic;
  UnplannedConnection connection;
  PostingHost host;
  std::unique_ptr<Qp> qp;
  std::vector<uint8_t> fifo, staging;
};

TEST(UnplannedConnection, GrantsWhatNcclWould) {
  Rig rig(true);
  EXPECT_TRUE(rig.host.posted.empty()) << "its sender is not ready";
  rig.connection.on_wake(Time(), UnplannedConnection::kJoin);
  ASSERT_EQ(rig.host.posted.size(), 8u);
  const CtsEntry first = CtsEntry::decode(rig.layout, rig.host.posted[0].payload.bytes);
  EXPECT_EQ(first.size, 1u << 30);
  EXPECT_EQ(first.tag, 9u);
  for (uint32_t i = 0; i < 600; ++i) {
    rig.data(i);
    ASSERT_EQ(rig.host.posted.size(), 9u + i);
    ASSERT_EQ(rig.host.posted.back().remote_va, 0x1000 + (8 + i) % 256 * 512);
  }
  EXPECT_EQ(rig.traffic.messages_received, 600u);
  EXPECT_EQ(rig.traffic.bytes_received, 600u * 599 / 2);
  EXPECT_EQ(rig.traffic.violations, 0u);
}

TEST(UnplannedConnection, DataWithoutACreditAreCounted) {
  Rig rig(true);
  rig.data(10);
  EXPECT_EQ(rig.traffic.violations, 1u);
  EXPECT_EQ(rig.traffic.messages_received, 0u);
}

TEST(UnplannedConnection, AnswersEachCreditWithItsCapacity) {
  Rig rig(false);
  rig.credit(0, 0x5000, 65536);
  EXPECT_TRUE(rig.host.posted.empty()) << "before our word that we are ready";
  rig.connection.on_wake(Time(), UnplannedConnection::kJoin);
  ASSERT_EQ(rig.host.posted.size(), 1u);
  EXPECT_EQ(rig.host.posted[0].length, 65536u);
  uint32_t line[4];
  rig.host.posted[0].payload.write({reinterpret_cast<uint8_t*>(line), sizeof line});
  EXPECT_EQ(line[1], 1u) << "LL's flag";
  EXPECT_EQ(line[3], 1u);
  rig.credit(1, 0x5000 + 65536, 65536);
  ASSERT_EQ(rig.host.posted.size(), 2u);
  rig.host.posted[1].payload.write({reinterpret_cast<uint8_t*>(line), sizeof line});
  EXPECT_EQ(line[1], 2u);
  EXPECT_EQ(rig.traffic.messages_sent, 2u);
  EXPECT_EQ(rig.traffic.bytes_sent, 131072u);
}

TEST(UnplannedConnection, WaitsForRoomInItsQueue) {
  Rig rig(false);
  rig.connection.on_wake(Time(), UnplannedConnection::kJoin);
  rig.host.room = 1;
  rig.credit(0, 0x5000, 65536);
  rig.credit(1, 0x5000 + 65536, 65536);
  EXPECT_EQ(rig.host.posted.size(), 1u);
  rig.host.room = 2;
  rig.connection.on_completed(Time(), *rig.qp, 0, WorkStatus::kSuccess);
  EXPECT_EQ(rig.host.posted.size(), 2u);
  uint32_t line[4];
  rig.host.posted[1].payload.write({reinterpret_cast<uint8_t*>(line), sizeof line});
  EXPECT_EQ(line[1], 2u) << "its step is counted once";
  EXPECT_EQ(rig.traffic.violations, 0u);
  rig.connection.on_completed(Time(), *rig.qp, 1, WorkStatus::kRetryExceeded);
  rig.connection.on_completed(Time(), *rig.qp, 2, WorkStatus::kFlushed);
  EXPECT_EQ(rig.traffic.failed, 1u);
}

}  // namespace
}  // namespace understudy
