// Frames that another thread has read and verified lead to what frames lead to that the shard reads
// itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr uint32_t kQps = 8;

/// A rig with queue pairs whose memory is written.
struct Node {
  explicit Node(const ShardConfig& config) : rig(config), memory(size_t{1} << 16) {
    rkey = rig.add_region(1, memory.size(), memory.data());
    for (uint32_t i = 0; i < kQps; ++i) {
      QpConfig q = rig.qp_config(i);
      q.mtu = 4096;
      rig.add_qp(q);
    }
  }
  Rig rig;
  std::vector<uint8_t> memory;
  Rkey rkey = 0;
};

std::vector<uint8_t> some_frame(const Node& node, std::mt19937& random,
                                std::array<Psn, kQps>& psns) {
  const auto slot = static_cast<uint32_t>(random() % (kQps + 1));  // the last one does not exist
  RoceAddressing way;
  way.src_mac = node_mac(kRealNode);
  way.dst_mac = node_mac(1);
  way.src = node_ip(kRealNode);
  way.dst = node_ip(1);
  RoceFields f;
  f.opcode = Opcode::kWriteOnly;
  f.ack_request = random() % 4 == 0;
  f.dest_qpn = node.rig.shard.qpn_of(slot);
  f.rkey = node.rkey;
  std::vector<uint8_t> payload(random() % 4097);
  f.va = random() % (node.memory.size() - payload.size());
  f.dma_length = static_cast<uint32_t>(payload.size());
  std::ranges::generate(payload, [&] { return static_cast<uint8_t>(random()); });
  f.psn = slot < kQps ? psns[slot] : Psn(0);
  auto frame = roce_frame(way, f, payload);
  switch (random() % 8) {
    case 0:
      frame[random() % frame.size()] ^= static_cast<uint8_t>(1u << random() % 8);
      break;
    case 1:
      frame.resize(random() % frame.size());
      break;
    default:
      if (slot < kQps) psns[slot] = psns[slot].next();
  }
  return frame;
}

class ReadFrames : public testing::TestWithParam<VerifyIcrc> {};

TEST_P(ReadFrames, LeadToTheSame) {
  ShardConfig config = rig_config(Rate::bits_per_second(100'000'000'000), Duration::us(1));
  config.verify = GetParam();
  config.icmp_through_fabric = true;
  Node own(config), given(config);
  IcrcMemory memory;
  std::mt19937 random(7);
  std::array<Psn, kQps> psns;
  for (int turn = 0; turn < 300; ++turn) {
    std::vector<std::vector<uint8_t>> frames(1 + random() % 70);
    std::vector<std::span<const uint8_t>> views;
    std::vector<ReadFrame> reads(frames.size());
    std::vector<const ReadFrame*> read;
    for (size_t i = 0; i < frames.size(); ++i) {
      frames[i] = some_frame(own, random, psns);
      views.emplace_back(frames[i]);
      reads[i].read(frames[i]);
      if (GetParam() == VerifyIcrc::kFull) reads[i].verify(memory);
      read.push_back(&reads[i]);
    }
    own.rig.shard.rx({own.rig.now, Duration(), views});
    given.rig.shard.rx({given.rig.now, Duration(), views, 0, read});
    own.rig.advance(Duration::us(5));
    given.rig.advance(Duration::us(5));
  }
  const ShardCounters &a = own.rig.shard.counters(), &b = given.rig.shard.counters();
  EXPECT_EQ(a.rx_roce, b.rx_roce);
  EXPECT_EQ(a.rx_frames, b.rx_frames);
  EXPECT_EQ(a.drops, b.drops);
  EXPECT_EQ(a.rc, b.rc);
  EXPECT_EQ(own.memory, given.memory);
  EXPECT_GT(own.rig.drops(Drop::kUnknownQpn), 100U);
  EXPECT_GT(own.rig.drops(Drop::kBadIcrc), GetParam() == VerifyIcrc::kFull ? 100U : 0U);
  EXPECT_GT(own.rig.drops(Drop::kTruncated), 100U);
  ASSERT_EQ(own.rig.sink.sent.size(), given.rig.sink.sent.size());
  EXPECT_GT(own.rig.sink.sent.size(), 100U);
  for (size_t i = 0; i < own.rig.sink.sent.size(); ++i) {
    EXPECT_EQ(own.rig.sink.sent[i].scheduled, given.rig.sink.sent[i].scheduled);
    EXPECT_EQ(own.rig.sink.sent[i].bytes, given.rig.sink.sent[i].bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReadFrames, testing::Values(VerifyIcrc::kFull, VerifyIcrc::kSampled));

}  // namespace
}  // namespace understudy
