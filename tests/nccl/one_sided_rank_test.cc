// How an emulated rank answers a real one's puts and signals (docs/nccl 3.16).
#include "dataplane/nccl/one_sided_rank.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/rigs/posting_host.h"

namespace understudy {
namespace {

constexpr uint64_t kSignals = 0x10000, kRealSignals = 0x20000;
constexpr uint64_t kWindow = uint64_t{1} << 40, kRealWindow = uint64_t{2} << 40;
constexpr uint64_t kWindowBytes = uint64_t{1} << 30;
constexpr uint64_t kNamed = 0x30000, kRealNamed = 0x40000, kNamedBytes = 256;
constexpr uint32_t kRank = 3, kReal = 1;
using Signals = SymmetricRange::Signals;

struct Rig {
  explicit Rig(bool joined = true) : regions(1), rank(traffic) {
    QpConfig config;
    config.node = 1;
    in = std::make_unique<Qp>(config, regions, counters, rank);
    out = std::make_unique<Qp>(config, regions, counters, rank);
    rank.attach(host);
    rank.set_out(*out);
    rank.add({kSignals, 40, nullptr, kRealSignals, 5, kRank, kReal, Signals::kOfRanks});
    rank.add({kNamed, kNamedBytes, nullptr, kRealNamed, 7, kRank, kReal, Signals::kNamed});
    rank.add({kWindow, kWindowBytes, contents.data(), kRealWindow, 6, kRank, kReal});
    rank.on_wake(Time(), joined ? OneSidedRank::kJoin : OneSidedRank::kMore);
  }
  void put(uint64_t offset, uint32_t bytes) {
    rank.on_received(Time(), *in,
                     Received{.is_write = true, .va = kWindow + offset, .length = bytes});
  }
  void signal() { rank.on_atomic(Time(), *in, kSignals + kReal * 8, 1); }
  void named(uint64_t number, uint64_t value) {
    rank.on_atomic(Time(), *in, kNamed + number * 8, value);
  }

  std::vector<uint8_t> contents = std::vector<uint8_t>(16);
  RegionTable regions;
  RcCounters counters{};
  OneSidedTraffic traffic;
  OneSidedRank rank;
  PostingHost host;
  std::unique_ptr<Qp> in, out;
};

void expect_signal(const Rig& rig, size_t i) {
  const auto& posted = rig.host.posted.at(i);
  EXPECT_EQ(posted.op, WorkOp::kFetchAdd);
  EXPECT_EQ(posted.remote_va, kRealSignals + kRank * 8);
  EXPECT_EQ(posted.rkey, 5u);
  EXPECT_EQ(posted.compare_add, 1u);
  EXPECT_EQ(posted.qp, rig.out.get());
}

void expect_put(const Rig& rig, size_t i, uint64_t offset, uint32_t bytes) {
  const auto& posted = rig.host.posted.at(i);
  EXPECT_EQ(posted.op, WorkOp::kWrite);
  EXPECT_EQ(posted.remote_va, kRealWindow + offset);
  EXPECT_EQ(posted.rkey, 6u);
  EXPECT_EQ(posted.length, bytes);
  EXPECT_EQ(posted.payload.bytes, rig.contents.data());
  EXPECT_EQ(posted.payload.offset, offset);
}

TEST(OneSidedRank, AnswersToTheSamePlace) {
  Rig rig;
  rig.put(100, 3000);
  EXPECT_TRUE(rig.host.posted.empty()) << "nobody waits for a put without a signal";
  rig.put(5000, 8);
  rig.signal();
  ASSERT_EQ(rig.host.posted.size(), 3u);
  expect_put(rig, 0, 100, 3000);
  expect_put(rig, 1, 5000, 8);
  expect_signal(rig, 2);
  EXPECT_EQ(rig.traffic.puts, 2u);
  EXPECT_EQ(rig.traffic.put_bytes, 3008u);
  EXPECT_EQ(rig.traffic.answers, 2u);
  EXPECT_EQ(rig.traffic.answer_bytes, 3008u);
  EXPECT_EQ(rig.traffic.unanswered, 0u);
}

/// A signal without data begins a collective: slots are numbered by rank.
TEST(OneSidedRank, AnswersIntoItsOwnSlot) {
  Rig rig;
  rig.signal();
  expect_signal(rig, 0);
  rig.put(4096 + kReal * 500, 500);
  rig.signal();
  ASSERT_EQ(rig.host.posted.size(), 3u);
  expect_put(rig, 1, 4096 + kRank * 500, 500);
  expect_signal(rig, 2);
  // The next one is a put of its own again.
  rig.put(0, 10);
  rig.signal();
  expect_put(rig, 3, 0, 10);
}

TEST(OneSidedRank, DataWithoutAPlaceAreLeftOut) {
  Rig rig;
  rig.signal();
  rig.put(kReal * 500 - 1, 500);  // no slot of the real rank's
  rig.signal();
  rig.signal();
  rig.put(kWindowBytes - 500, 500);  // ours would be behind the window
  rig.signal();
  ASSERT_EQ(rig.host.posted.size(), 4u);
  for (size_t i = 0; i < 4; ++i) expect_signal(rig, i);
  EXPECT_EQ(rig.traffic.unanswered, 2u);
}

/// NCCL cuts slices of more than 64 MiB: all of their chunks are longer than 32.
TEST(OneSidedRank, ChunksOfACollectiveAreAnsweredBySignals) {
  Rig rig;
  const auto chunk = static_cast<uint32_t>(OneSidedRank::kMayBeChunk + 8192);
  rig.signal();
  for (uint32_t i = 0; i < 3; ++i) {
    rig.put(uint64_t{i} * chunk, chunk);
    rig.signal();
  }
  ASSERT_EQ(rig.host.posted.size(), 4u);
  for (size_t i = 0; i < 4; ++i) expect_signal(rig, i);
  EXPECT_EQ(rig.traffic.chunks, 3u);
  // A put of the program's own may be as long.
  rig.put(0, 8);
  rig.signal();
  rig.put(0, chunk);
  rig.signal();
  expect_put(rig, 6, 0, chunk);
  EXPECT_EQ(rig.traffic.chunks, 3u);
}

TEST(OneSidedRank, WaitsForItsWayOutAndForRoom) {
  Rig rig(false);
  rig.put(0, 64);
  rig.signal();
  EXPECT_TRUE(rig.host.posted.empty());
  rig.host.room = 1;
  rig.rank.on_wake(Time(), OneSidedRank::kJoin);
  ASSERT_EQ(rig.host.posted.size(), 1u);
  rig.host.room = 2;
  rig.rank.on_completed(Time(), *rig.out, 0, WorkStatus::kSuccess);
  ASSERT_EQ(rig.host.posted.size(), 2u);
  expect_put(rig, 0, 0, 64);
  expect_signal(rig, 1);
}

TEST(OneSidedRank, AFailedQueuePairIsCountedOnce) {
  Rig rig;
  rig.rank.on_completed(Time(), *rig.out, 0, WorkStatus::kRetryExceeded);
  rig.rank.on_completed(Time(), *rig.out, 0, WorkStatus::kFlushed);
  EXPECT_EQ(rig.traffic.failed, 1u);
  rig.signal();
  EXPECT_TRUE(rig.host.posted.empty());
}

void expect_named(const Rig& rig, size_t i, uint64_t number, uint64_t value) {
  const auto& posted = rig.host.posted.at(i);
  EXPECT_EQ(posted.op, WorkOp::kFetchAdd);
  EXPECT_EQ(posted.remote_va, kRealNamed + number * 8);
  EXPECT_EQ(posted.rkey, 7u);
  EXPECT_EQ(posted.compare_add, value);
}

/// GIN's barrier has a signal of each rank; with data comes one that the kernel names.
TEST(OneSidedRank, AnswersGinsSignals) {
  Rig rig;
  rig.named(8 + kReal, 1);
  expect_named(rig, 0, 8 + kRank, 1);
  rig.put(kReal * 100, 100);
  rig.named(2, 5);
  expect_put(rig, 1, kRank * 100, 100);
  expect_named(rig, 2, 2, 5);
  // One before the first of a barrier, or behind the last signal, is no barrier's.
  rig.named(0, 1);
  rig.named(kNamedBytes / 8 - 1, 1);
  EXPECT_EQ(rig.host.posted.size(), 3u);
  EXPECT_EQ(rig.traffic.unanswered, 2u);
  // A signal in a window, at its place.
  rig.rank.on_atomic(Time(), *rig.in, kWindow + 64, 3);
  EXPECT_EQ(rig.host.posted.at(3).remote_va, kRealWindow + 64);
  EXPECT_EQ(rig.host.posted.at(3).compare_add, 3u);
}

/// It cuts nothing into chunks.
TEST(OneSidedRank, AnswersLargePutsOfGin) {
  Rig rig;
  rig.named(8 + kReal, 1);
  rig.put(kReal * (uint64_t{64} << 20), 64 << 20);
  rig.named(2, 1);
  ASSERT_EQ(rig.host.posted.size(), 3u);
  EXPECT_EQ(rig.host.posted[1].length, 64u << 20);
  EXPECT_EQ(rig.traffic.chunks, 0u);
}

}  // namespace
}  // namespace understudy
