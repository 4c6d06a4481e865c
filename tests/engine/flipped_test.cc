// One bit flipped on the way in one of 1,000 packets: exactly these are dropped, all others are
// executed and acknowledged once. Many queue pairs send at a time, each the next packet when the
// one before is acknowledged, and that one again when it is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <set>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr uint32_t kQps = 64, kRounds = 1024, kOneOf = 1000;
constexpr size_t kBurst = 32;
constexpr std::array<uint32_t, 4> kPayloads = {64, 256, 1024, 4096};

/// One queue pair's far end: stop and wait.
struct Sender {
  RoceAddressing way;
  RoceFields fields;
  std::vector<uint8_t> payload;
  std::vector<uint8_t> frame;  ///< as it comes in
  uint32_t acknowledged = 0;
  bool damaged = false;

  void fill(std::vector<uint8_t>& bytes, uint32_t message) const {
    std::iota(bytes.begin(), bytes.end(), static_cast<uint8_t>(message + fields.dest_qpn * 31));
  }
  void make() {
    fill(payload, acknowledged);
    frame = roce_frame(way, fields, payload);
  }
  void next() {
    ++acknowledged;
    fields.psn = fields.psn.next();
  }
};

/// A bit that only the ICRC guards: behind the opcode and the flags of the BTH, which say where the
/// headers end, and not in the byte of FECN and BECN, which the ICRC leaves out.
size_t guarded_bit(size_t bth, size_t frame_bytes, std::mt19937_64& random) {
  for (;;) {
    const size_t byte = bth + 2 + random() % (frame_bytes - bth - 2);
    if (byte != bth + 4) return 8 * byte + random() % 8;
  }
}

class Flipped : public testing::TestWithParam<bool> {
 protected:
  Flipped() : rig(rig_config(Rate(), Duration())), memory(size_t{kQps} * 4096) {
    const Rkey rkey = rig.add_region(1, memory.size(), memory.data());
    for (uint32_t i = 0; i < kQps; ++i) {
      QpConfig config = rig.qp_config(i, 1, kRealNode, GetParam());
      config.mtu = 4096;
      config.rq_psn = Psn(0xffffff - 16 * i);  // some wrap soon
      const Qp& qp = rig.add_qp(config);
      Sender& s = senders[i];
      s.way = qp.config().addressing;
      std::swap(s.way.src, s.way.dst);
      std::swap(s.way.src_mac, s.way.dst_mac);
      s.payload.resize(kPayloads[i % kPayloads.size()]);
      s.fields.opcode = Opcode::kWriteOnly;
      s.fields.dest_qpn = config.qpn;
      s.fields.psn = config.rq_psn;
      s.fields.ack_request = true;
      s.fields.va = uint64_t{i} * 4096;
      s.fields.rkey = rkey;
      s.fields.dma_length = static_cast<uint32_t>(s.payload.size());
    }
  }

  /// What the queue pairs' ends hear is answered before their next packets.
  void hear(std::set<Qpn>& heard) {
    for (const SentFrame& sent : rig.sink.sent) {
      const Parsed answer(sent.bytes);
      ASSERT_EQ(answer.kind, FrameKind::kRoce);
      ASSERT_TRUE(icrc_ok(answer.view, answer.roce));
      ASSERT_EQ(answer.roce.opcode, static_cast<uint8_t>(Opcode::kAcknowledge));
      ASSERT_EQ(answer.roce.syndrome & kSyndromeKindMask, kSyndromeAck);
      ASSERT_TRUE(heard.insert(answer.roce.dest_qpn).second) << "twice";
      const auto of = std::ranges::find(senders, answer.roce.dest_qpn,
                                        [](const Sender& s) { return s.fields.dest_qpn; });
      ASSERT_NE(of, senders.end());
      ASSERT_FALSE(of->damaged);
      ASSERT_EQ(answer.roce.psn, of->fields.psn);
      of->next();
    }
    rig.sink.sent.clear();
  }

  const size_t bth = 14 + (GetParam() ? 40 : 20) + 8;  ///< of an untagged frame
  Rig rig;
  std::vector<uint8_t> memory;
  std::array<Sender, kQps> senders;
};

TEST_P(Flipped, ExactlyTheseAreDropped) {
  std::mt19937_64 random(1);
  std::array<uint32_t, kQps> order;
  std::iota(order.begin(), order.end(), 0u);
  uint64_t packets = 0, damaged = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::ranges::shuffle(order, random);
    std::vector<std::span<const uint8_t>> frames;
    size_t expected = kQps;
    for (const uint32_t i : order) {
      Sender& s = senders[i];
      s.make();
      s.damaged = ++packets % kOneOf == 0;
      if (s.damaged) {
        const size_t bit = guarded_bit(bth, s.frame.size(), random);
        s.frame[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        ++damaged;
        --expected;
      }
      frames.emplace_back(s.frame);
    }
    for (size_t at = 0; at < frames.size(); at += kBurst) {
      rig.shard.rx({rig.now, Duration(), std::span(frames).subspan(at, kBurst)});
      rig.advance(Duration::us(1));
    }
    std::set<Qpn> heard;
    ASSERT_NO_FATAL_FAILURE(hear(heard));
    ASSERT_EQ(heard.size(), expected);
    ASSERT_EQ(rig.drops(Drop::kBadIcrc), damaged);
  }
  EXPECT_EQ(packets, uint64_t{1} << 16);
  EXPECT_EQ(damaged, 65u);
  const ShardCounters& counters = rig.shard.counters();
  EXPECT_EQ(counters.rx_frames, packets);
  EXPECT_EQ(std::accumulate(counters.drops.begin(), counters.drops.end(), uint64_t{0}), damaged);
  EXPECT_EQ(rig.endpoint.received.size(), packets - damaged);
  EXPECT_EQ(counters.tx_frames, packets - damaged);
  EXPECT_EQ(rig.rc(RcEvent::kDuplicateRequest), 0u);
  EXPECT_EQ(rig.rc(RcEvent::kNakSent), 0u);
  for (const Sender& s : senders) {
    EXPECT_GE(s.acknowledged, kRounds - damaged);
    const auto* at = memory.data() + s.fields.va;
    std::vector<uint8_t> last(s.payload.size());
    s.fill(last, s.acknowledged - 1);
    EXPECT_TRUE(std::equal(last.begin(), last.end(), at));
  }
}

INSTANTIATE_TEST_SUITE_P(Ip, Flipped, testing::Bool(),
                         [](const auto& v) { return v.param ? "v6" : "v4"; });

}  // namespace
}  // namespace understudy
