// The feed of the profiler plugin: what records tell, and what is said of wrong ones.
#include "ctrl/peers/feed.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/feed_drive.h"

namespace understudy {
namespace {

FeedRecord all_reduce() {
  FeedRecord r;
  r.channels = 4;
  r.warps = 16;
  r.rank = 3;
  r.communicator = 0xfeedbeef12345678;
  r.sequence = 7;
  r.count = 16777216;
  FeedRecord::set(r.function, "AllReduce");
  FeedRecord::set(r.type, "ncclFloat32");
  FeedRecord::set(r.algorithm, "RING");
  FeedRecord::set(r.protocol, "LL128");
  return r;
}

std::vector<uint8_t> bytes_of(const FeedRecord& record) {
  std::vector<uint8_t> bytes(FeedRecord::kBytes);
  record.encode(std::span<uint8_t, FeedRecord::kBytes>(bytes));
  return bytes;
}

std::string error_of(const FeedRecord& record) {
  FeedDecoder decoder;
  std::vector<FedOperation> operations;
  EXPECT_FALSE(decoder.take(bytes_of(record), operations));
  EXPECT_TRUE(operations.empty());
  return decoder.error();
}

TEST(Feed, TellsAnOperation) {
  FeedDecoder decoder;
  std::vector<FedOperation> operations;
  ASSERT_TRUE(decoder.take(bytes_of(all_reduce()), operations)) << decoder.error();
  ASSERT_EQ(operations.size(), 1u);
  const FedOperation& fed = operations[0];
  EXPECT_EQ(fed.rank, 3u);
  EXPECT_EQ(fed.communicator, 0xfeedbeef12345678);
  EXPECT_EQ(fed.sequence, 7u);
  EXPECT_EQ(fed.operation.collective, Collective::kAllReduce);
  EXPECT_EQ(fed.operation.algorithm, Algorithm::kRing);
  EXPECT_EQ(fed.operation.protocol, Protocol::kLL128);
  EXPECT_EQ(fed.operation.bytes(), uint64_t{64} << 20);
  EXPECT_EQ(fed.operation.channels, 4u);
  EXPECT_EQ(fed.operation.threads, 512u);
  EXPECT_EQ(fed.group, 0u);
  EXPECT_TRUE(fed.last);
}

/// What is told is recorded again as it was.
TEST(Feed, TellsGroups) {
  FeedRecord r = all_reduce();
  r.group = 7;
  for (const uint8_t last : {uint8_t{0}, uint8_t{1}}) {
    r.last = last;
    FeedDecoder decoder;
    std::vector<FedOperation> operations;
    ASSERT_TRUE(decoder.take(bytes_of(r), operations)) << decoder.error();
    EXPECT_EQ(operations[0].group, 7u);
    EXPECT_EQ(operations[0].last, last == 1);
    EXPECT_EQ(record_of(operations[0]), bytes_of(r));
  }
}

TEST(Feed, TellsHalfOfAPair) {
  FeedRecord r = all_reduce();
  r.kind = FeedKind::kPointToPoint;
  r.other = 5;
  FeedRecord::set(r.function, "Recv");
  FeedRecord::set(r.type, "Unknown");  // NCCL's word for ncclUint8
  FeedRecord::set(r.algorithm, nullptr);
  FeedRecord::set(r.protocol, nullptr);
  FeedDecoder decoder;
  std::vector<FedOperation> operations;
  ASSERT_TRUE(decoder.take(bytes_of(r), operations)) << decoder.error();
  EXPECT_FALSE(operations[0].sends);
  EXPECT_EQ(operations[0].peer, 5u);
  EXPECT_EQ(operations[0].operation.bytes(), 16777216u);
}

TEST(Feed, NamesWhatIsWrong) {
  FeedRecord r = all_reduce();
  FeedRecord::set(r.algorithm, "NVLS");
  EXPECT_EQ(error_of(r), "feed: record 0: algorithm: \"NVLS\" is not known");
  r = all_reduce();
  r.version = 6;
  EXPECT_EQ(error_of(r), "feed: record 0: version: 6: 1 to 5");
  r = all_reduce();
  r.kind = static_cast<FeedKind>(9);
  EXPECT_EQ(error_of(r), "feed: record 0: kind: 9: 1 or 2");
  r = all_reduce();
  r.count = uint64_t{1} << 60;
  EXPECT_EQ(error_of(r), "feed: record 0: count: 1152921504606846976: more than 16 TiB");
  r = all_reduce();
  std::memset(r.type, 'x', sizeof r.type);
  EXPECT_EQ(error_of(r), "feed: record 0: type: not a text");
  r = all_reduce();
  r.other = -1;
  EXPECT_EQ(error_of(r), "feed: record 0: root or peer: -1");
  r = all_reduce();
  r.last = 2;
  EXPECT_EQ(error_of(r), "feed: record 0: last: 2: 0 or 1");

  FeedDecoder decoder;
  std::vector<FedOperation> operations;
  const uint8_t request[] = "GET / HTTP/1.1\r\n";
  EXPECT_FALSE(decoder.take(request, operations));
  EXPECT_EQ(decoder.error(), "feed: record 0: it does not begin as one");
}

TEST(Feed, CountsWhatIsMissing) {
  std::vector<FedOperation> taken;
  uint64_t lost = 0;
  std::string ended;
  FeedPeer peer([&](Time, const FedOperation& o) { taken.push_back(o); },
                [&](Time, uint64_t records) { lost += records; },
                [&](Time, const std::string& why) { ended = why; });
  FeedRecord r = all_reduce();
  peer.on_bytes(Time::zero(), bytes_of(r));
  r.dropped = 3;
  peer.on_bytes(Time::zero(), bytes_of(r));
  r.dropped = 5;
  peer.on_bytes(Time::zero(), bytes_of(r));
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_EQ(lost, 5u);
  peer.on_bytes(Time::zero(), std::vector<uint8_t>{'u', 's'});
  peer.on_closed(Time::zero());
  EXPECT_TRUE(peer.finished());
  EXPECT_EQ(peer.failure(), "feed: it ended inside a record");
  EXPECT_EQ(ended, peer.failure());
}

TEST(Feed, TakesAnyBytes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> bytes;
    for (uint64_t n = random() % 4; n > 0; --n) {
      const auto record = bytes_of(all_reduce());
      bytes.insert(bytes.end(), record.begin(), record.end());
    }
    for (uint64_t n = random() % 4; n > 0 && !bytes.empty(); --n) {
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    }
    bytes.resize(bytes.size() - std::min<size_t>(bytes.size(), random() % 3));
    drive_feed(bytes);
  }
}

}  // namespace
}  // namespace understudy
