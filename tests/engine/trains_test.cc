// Packets of a WRITE that come together go through the shard as one, and lead to what they lead to
// one by one: the same frames at the same times, the same receptions, the same counters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr uint32_t kQps = 3, kMtu = 1024;

/// A rig with queue pairs on two nodes that look at no payload.
struct Node {
  explicit Node(const ShardConfig& config) : rig(config) {
    for (NodeId node = 1; node <= 2; ++node) {
      Command c;
      c.kind = CommandKind::kAddRegion;
      c.region_index = node;
      c.region = {node, 0, uint64_t{1} << 30, kAccessRemoteWrite, nullptr, false};
      EXPECT_EQ(rig.command(c), ReplyStatus::kDone);
    }
    for (uint32_t i = 0; i < kQps; ++i) {
      QpConfig q = rig.qp_config(i, 1 + i % 2);
      q.mtu = kMtu;
      rig.add_qp(q, false);
    }
  }
  Rkey rkey(uint32_t qp) const { return rig.shard.regions().rkey(1 + qp % 2); }

  Rig rig;
};

/// What a real node sends: messages of WRITEs over all queue pairs, and what goes wrong with them.
class Peer {
 public:
  Peer(const Node& node, unsigned seed) : node_(node), random_(seed) {}

  /// Up to so many frames.
  std::vector<std::vector<uint8_t>> some(size_t most) {
    std::vector<std::vector<uint8_t>> frames;
    while (frames.size() < most) {
      const auto qp = static_cast<uint32_t>(random_() % kQps);
      size_t together = 1 + random_() % 24;
      while (together-- > 0 && frames.size() < most) put(qp, frames);
    }
    return frames;
  }

 private:
  struct Stream {
    Psn psn;
    uint32_t length = 0, done = 0;  ///< of the message
  };
  void put(uint32_t qp, std::vector<std::vector<uint8_t>>& frames) {
    Stream& s = streams_[qp];
    if (s.done == s.length) {
      s.length = 1 + static_cast<uint32_t>(random_() % (40 * kMtu));
      s.done = 0;
    }
    const uint32_t bytes = std::min(kMtu, s.length - s.done);
    const bool first = s.done == 0, last = s.done + bytes == s.length;
    RoceFields f;
    f.opcode = first && last ? Opcode::kWriteOnly
               : first       ? Opcode::kWriteFirst
               : last        ? Opcode::kWriteLast
                             : Opcode::kWriteMiddle;
    f.dest_qpn = node_.rig.shard.qpn_of(qp);
    f.psn = s.psn;
    f.rkey = node_.rkey(qp);
    f.dma_length = s.length;
    f.ack_request = last || random_() % 32 == 0;
    RoceAddressing way;
    way.src_mac = node_mac(kRealNode);
    way.dst_mac = node_mac(1 + qp % 2);
    way.src = node_ip(kRealNode);
    way.dst = node_ip(1 + qp % 2);
    if (random_() % 64 == 0) way.traffic_class = 3;  // congestion experienced
    const std::vector<uint8_t> payload(bytes, static_cast<uint8_t>(random_()));
    bool arrives = true;
    switch (random_() % 200) {
      case 0:
        f.dest_qpn = node_.rig.shard.qpn_of(kQps);  // nobody's
        arrives = false;
        break;
      case 1:
        way.src = node_ip(2);
        arrives = false;
        break;
      case 2:
        f.dma_length +=
            4;  // of no account but in a first packet, where it makes the last one wrong
        break;
      case 3:
        f.psn = f.psn.advance(Psn::kMask);  // once more
        arrives = false;
        break;
      case 4:
        f.psn = f.psn.advance(2);
        arrives = false;
        break;
      default:
        break;
    }
    auto frame = roce_frame(way, f, payload);
    if (id_counts_) {
      frame[18] = static_cast<uint8_t>(random_());
      store_icrc(frame.data() + frame.size() - 4, icrc({frame.data() + 14, frame.size() - 18}));
    }
    if (random_() % 64 == 0) {
      frame[random_() % frame.size()] ^= static_cast<uint8_t>(1u << random_() % 8);
      arrives = false;
    }
    if (random_() % 64 == 0) {  // lost on its way, and sent again
      id_counts_ = !id_counts_;
      return;
    }
    frames.push_back(std::move(frame));
    if (!arrives) return;
    s.psn = s.psn.next();
    s.done += bytes;
  }

  const Node& node_;
  std::mt19937 random_;
  std::array<Stream, kQps> streams_;
  bool id_counts_ = false;  ///< IPv4's identification differs from frame to frame
};

using Rates = std::tuple<uint64_t, uint64_t,
                         uint64_t>;  ///< of the wire, and of both links, in Gbit/s; 0: no end

std::string name_of(const Rates& rates) {
  const auto& [wire, real, emulated] = rates;
  return "wire" + std::to_string(wire) + "_real" + std::to_string(real) + "_emulated" +
         std::to_string(emulated);
}

ShardConfig config_of(const Rates& rates) {
  const auto gbit = [](uint64_t n) { return Rate::bits_per_second(1'000'000'000 * n); };
  ShardConfig c = rig_config(gbit(std::get<1>(rates)), Duration::us(1), 3);
  c.wires.front().physical = gbit(std::get<0>(rates));
  // Not alike: of two that come at the very same time either may be the first.
  c.rates[1] = gbit(std::get<2>(rates));
  c.rates[2] = Rate::bits_per_second(c.rates[1].bps() / 100 * 97);
  c.packets = 8192;
  c.verify = VerifyIcrc::kFull;
  c.cnp.on = true;
  return c;
}

/// A line for each frame that was sent, in the order of their times.
std::vector<std::string> sent(const Rig& rig) {
  std::vector<std::string> all;
  for (const SentFrame& f : rig.sink.sent) {
    const Parsed p(f.bytes);
    all.push_back(std::to_string(f.scheduled.ps()) + " ps: " + opcode_info(p.roce.opcode).name +
                  " to " + std::to_string(p.roce.dest_qpn) + " PSN " +
                  std::to_string(p.roce.psn.value()) + " syndrome " +
                  std::to_string(p.roce.syndrome) + " MSN " + std::to_string(p.roce.msn));
  }
  return all;
}

std::vector<std::string> received(const Rig& rig) {
  std::vector<std::string> all;
  for (const auto& seen : rig.endpoint.received) {
    all.push_back(std::to_string(seen.at.ps()) + " ps: " + std::to_string(seen.id) + " bytes for " +
                  std::to_string(seen.qpn));
  }
  return all;
}

/// The first line that is not in both.
std::string difference(std::vector<std::string> a, std::vector<std::string> b, bool in_order) {
  if (!in_order) {
    std::ranges::sort(a);
    std::ranges::sort(b);
  }
  const auto [x, y] = std::ranges::mismatch(a, b);
  if (x == a.end() && y == b.end()) return {};
  const auto line = [](auto at, const auto& all) { return at == all.end() ? "nothing" : *at; };
  return line(x, a) + " instead of " + line(y, b);
}

class Trains : public testing::TestWithParam<Rates> {};

TEST_P(Trains, LeadToWhatTheirPacketsLeadTo) {
  const ShardConfig config = config_of(GetParam());
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Node together(config), alone(config);
    Peer peer(together, seed);
    std::mt19937 random(seed);
    for (int turn = 0; turn < 60; ++turn) {
      const auto frames = peer.some(1 + random() % 80);
      std::vector<std::span<const uint8_t>> views(frames.begin(), frames.end());
      const Duration uncertainty = Duration::ns(static_cast<int64_t>(random() % 1000));
      together.rig.shard.rx({together.rig.now, uncertainty, views});
      for (const auto& frame : frames) alone.rig.receive(frame, uncertainty);
      const Duration pause = Duration::ns(static_cast<int64_t>(random() % 20'000));
      together.rig.advance(pause);
      alone.rig.advance(pause);
    }
    together.rig.advance(Duration::ms(10));
    alone.rig.advance(Duration::ms(10));
    // Where links take no time all of a burst comes at once.
    const bool in_order = std::get<0>(GetParam()) != 0;
    ASSERT_EQ(difference(sent(together.rig), sent(alone.rig), in_order), "");
    ASSERT_EQ(difference(received(together.rig), received(alone.rig), in_order), "");
    ShardSnapshot a, b;
    for (auto [rig, out] : {std::pair(&together.rig, &a), std::pair(&alone.rig, &b)}) {
      rig->shard.fit(*out);
      rig->shard.snapshot(*out, rig->now);
    }
    EXPECT_EQ(a.counters.drops, b.counters.drops);
    EXPECT_EQ(a.counters.rc, b.counters.rc);
    EXPECT_EQ(a.counters.rx_roce, b.counters.rx_roce);
    for (size_t node = 0; node < 3; ++node) {
      EXPECT_EQ(a.up[node].packets, b.up[node].packets);
      EXPECT_EQ(a.up[node].wire_bytes, b.up[node].wire_bytes);
      EXPECT_EQ(a.down[node].packets, b.down[node].packets);
      EXPECT_EQ(a.down[node].wire_bytes, b.down[node].wire_bytes);
    }
    EXPECT_GT(received(together.rig).size(), 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(EngineTrains, Trains,
                         testing::Values(Rates(0, 0, 0), Rates(400, 400, 400), Rates(400, 100, 400),
                                         Rates(400, 400, 100), Rates(100, 200, 50),
                                         Rates(100, 33, 27), Rates(400, 25, 40)),
                         [](const auto& info) { return name_of(info.param); });

class Train : public testing::Test {
 protected:
  /// A message of `packets`, the first of which has PSN `psn`.
  std::vector<std::vector<uint8_t>> message(uint32_t packets, Psn psn = Psn(),
                                            uint32_t qp = 0) const {
    std::vector<std::vector<uint8_t>> frames;
    RoceAddressing way;
    way.src_mac = node_mac(kRealNode);
    way.dst_mac = node_mac(1 + qp % 2);
    way.src = node_ip(kRealNode);
    way.dst = node_ip(1 + qp % 2);
    RoceFields f;
    f.dest_qpn = node.rig.shard.qpn_of(qp);
    f.rkey = node.rkey(qp);
    f.dma_length = packets * kMtu;
    const std::vector<uint8_t> payload(kMtu);
    for (uint32_t i = 0; i < packets; ++i) {
      f.opcode = i == 0             ? Opcode::kWriteFirst
                 : i + 1 == packets ? Opcode::kWriteLast
                                    : Opcode::kWriteMiddle;
      f.ack_request = i + 1 == packets;
      f.psn = psn.advance(i);
      frames.push_back(roce_frame(way, f, payload));
    }
    return frames;
  }
  void come(const std::vector<std::vector<uint8_t>>& frames) {
    const std::vector<std::span<const uint8_t>> views(frames.begin(), frames.end());
    node.rig.shard.rx({node.rig.now, Duration(), views});
  }
  /// The AETHs of what was sent, and their PSNs.
  std::vector<std::pair<uint8_t, uint32_t>> answers() const {
    std::vector<std::pair<uint8_t, uint32_t>> all;
    for (const SentFrame& f : node.rig.sink.sent) {
      const Parsed p(f.bytes);
      all.emplace_back(p.roce.syndrome, p.roce.psn.value());
    }
    return all;
  }
  static ShardConfig small() {
    ShardConfig c = config_of({400, 400, 400});
    c.packets = 64;
    return c;
  }
  Node node{small()};
};

/// Two thirds of a hundred packets and a pool of 64, some of which are kept for what goes out.
TEST_F(Train, TakesOnePacketOfThePool) {
  auto frames = message(33);
  for (auto& frame : message(33, Psn(), 1)) frames.push_back(std::move(frame));
  come(frames);
  node.rig.advance(Duration::us(100));
  EXPECT_EQ(node.rig.drops(Drop::kNoBuffer), 0u);
  EXPECT_EQ(received(node.rig).size(), 2u);
  EXPECT_EQ(answers().size(), 2u);
}

TEST_F(Train, ThatCameBeforeIsAcknowledgedAgain) {
  come(message(20));
  node.rig.advance(Duration::us(100));
  come(message(20));
  node.rig.advance(Duration::us(100));
  EXPECT_EQ(received(node.rig).size(), 1u);
  EXPECT_EQ(node.rig.rc(RcEvent::kDuplicateRequest), 20u);
  EXPECT_THAT(answers(), testing::Contains(std::pair(kNoCredits, 19u)).Times(testing::Ge(2)));
}

TEST_F(Train, LongerThanItsMessageIsRefused) {
  auto frames = message(20);
  frames.erase(frames.begin());  // of another message, shorter than what follows
  auto first = message(5).front();
  frames.insert(frames.begin(), first);
  come(frames);
  node.rig.advance(Duration::us(100));
  EXPECT_TRUE(received(node.rig).empty());
  EXPECT_EQ(node.rig.rc(RcEvent::kLengthError), 1u);
  const uint8_t nak = kSyndromeNak | static_cast<uint8_t>(NakCode::kInvalidRequest);
  EXPECT_THAT(answers(), testing::ElementsAre(std::pair(nak, 5u)));
}

/// A link that is cut to a tenth while a train passes: the next one feels it.
TEST_F(Train, AfterTheLinkHasChangedTakesItsNewTime) {
  come(message(16));
  Command slower;
  slower.kind = CommandKind::kSetLink;
  slower.node = 1;
  slower.change.rate = Rate::bits_per_second(40'000'000'000);
  ASSERT_EQ(node.rig.command(slower), ReplyStatus::kDone);
  node.rig.advance(Duration::us(50));
  const Time begin = node.rig.now;
  come(message(16, Psn(16)));
  node.rig.advance(Duration::us(50));
  const auto& seen = node.rig.endpoint.received;
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_GT(seen[1].at - begin, Duration::ns(16 * 1106 * 8 / 40));
}

}  // namespace
}  // namespace understudy
