// Two real nodes at ports of their own: what one of them floods the emulated nodes with, kind by kind, leaves the other one at least
// 90 % of its rate in virtual time, in both directions, at the flooded node and elsewhere; takes no memory; and leaves nothing behind.
// Requests of RDMA-CM: ctrl/services/cm_flood_test. UNDERSTUDY_FLOOD_TABLE=1 prints what tools/experiments/flood_study shows.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "dataplane/wire/pfc.h"
#include "tests/engine/flood_ports.h"
#include "tests/rigs/live_bytes.h"

namespace understudy {
namespace {

/// A kind of flood: its frames, which are sent again and again, and how many of them have been what they were to be.
struct Kind {
  const char* name;
  std::function<Frames(Ports&)> frames;
  std::function<uint64_t(const Ports&)> seen;
};

std::function<uint64_t(const Ports&)> dropped_for(Drop reason) {
  return [reason](const Ports& p) { return p.drops(reason); };
}
std::function<uint64_t(const Ports&)> counted_as(RcEvent event) {
  return [event](const Ports& p) { return p.rc(event); };
}
uint64_t answered(const Ports& p) { return p.counters().neighbour_answers; }

Frames many(const std::vector<uint8_t>& frame) { return Frames(1, frame); }

RoceFields write_request() {
  RoceFields f;
  f.opcode = Opcode::kWriteOnly;
  f.dma_length = 256;
  f.ack_request = true;
  return f;
}

Frames noise() {
  std::mt19937_64 random(1);
  Frames frames;
  for (size_t bytes = 1; bytes <= 1500; bytes += 31) {
    frames.push_back(random_bytes(bytes, random));
    // The flooded node's own address before noise, of IPv4, IPv6 and others.
    for (const uint16_t type : std::initializer_list<uint16_t>{0x0800, 0x86dd, 0x8808, 0x88b5}) {
      frames.push_back(l2(node_mac(kFlooded), node_mac(kFlooder), std::nullopt, type));
      const auto rest = random_bytes(bytes, random);
      frames.back().insert(frames.back().end(), rest.begin(), rest.end());
    }
  }
  return frames;
}

/// To all queue pairs of the flooder's.
Frames to_own(const Ports& ports, const RoceFields& f, uint32_t payload = 0) {
  Frames frames;
  for (uint32_t slot = 0; slot < kAttackers; ++slot)
    frames.push_back(ports.request(slot, f, payload));
  return frames;
}

Frames answers_to_own(Ports& ports, Opcode opcode, uint8_t syndrome) {
  ports.write_to_flooder();
  RoceFields f;
  f.opcode = opcode;
  f.syndrome = syndrome;
  return to_own(ports, f);
}

std::vector<uint8_t> arp(NodeId as, const MacAddress& mac) {
  auto frame = arp_request(node_ip(as), node_ip(kFlooded));
  std::copy(mac.bytes.begin(), mac.bytes.end(), frame.begin() + 6);
  std::copy(mac.bytes.begin(), mac.bytes.end(), frame.begin() + 22);
  return frame;
}

std::vector<uint8_t> tcp_syn(const RoceAddressing& a) {
  std::vector<uint8_t> out(a.l2_bytes() + a.l3_bytes() + 20);
  write_l2_l3(out.data(), a, kIpProtoTcp, 20);
  out[out.size() - 7] = 2;  // SYN
  return out;
}

std::vector<uint8_t> pause_of_all_classes() {
  PfcFrame pfc;
  pfc.source = node_mac(kFlooder);
  pfc.priorities = 0xff;
  pfc.quanta.fill(kMostPfcQuanta);
  std::vector<uint8_t> out(kPfcFrameBytes);
  write_pfc(pfc, out.data());
  return out;
}

const std::vector<Kind> kKinds = {
    {"noise: no protocol, cut short, random", [](Ports&) { return noise(); },
     [](const Ports& p) {
       return p.drops(Drop::kTruncated) + p.drops(Drop::kBadIp) + p.drops(Drop::kOtherEthertype);
     }},
    {"RoCE with a wrong ICRC",
     [](Ports& p) {
       auto frame = p.request(0, write_request(), 256);
       frame.back() ^= 1;
       return many(frame);
     },
     dropped_for(Drop::kBadIcrc)},
    {"to queue pairs that do not exist",
     [](Ports& p) {
       RoceFields f = write_request();
       Frames frames;
       for (Qpn qpn = 0x100; qpn < 0x100 + 64; ++qpn) {
         f.dest_qpn = qpn << 8;
         frames.push_back(p.request(0, f, 256));
       }
       return frames;
     },
     dropped_for(Drop::kUnknownQpn)},
    {"to the other peer's queue pairs, from the own address",
     [](Ports& p) {
       RoceFields f = write_request();
       f.dest_qpn = p.victim();
       return many(p.request(0, f, 256));
     },
     dropped_for(Drop::kWrongAddress)},
    {"to the other peer's queue pairs, in its name",
     [](Ports& p) {
       RoceFields f = write_request();
       f.dest_qpn = p.victim();
       f.psn = Psn(0x700000);
       RoceAddressing a = p.addressing();
       a.src = node_ip(kGood);
       return many(roce_frame(a, f, std::vector<uint8_t>(256)));
     },
     dropped_for(Drop::kWrongAddress)},
    {"requests with wrong memory keys",
     [](Ports& p) {
       RoceFields f = write_request();
       f.rkey = 0xbad;
       return to_own(p, f, 256);
     },
     [](const Ports& p) { return p.rc(RcEvent::kRemoteAccess) + p.rc(RcEvent::kWrongState); }},
    {"the same right request again and again",
     [](Ports& p) {
       RoceFields f = write_request();
       f.rkey = p.rkey();
       return to_own(p, f, 256);
     },
     counted_as(RcEvent::kDuplicateRequest)},
    {"requests far ahead of the expected one",
     [](Ports& p) {
       RoceFields f = write_request();
       f.rkey = p.rkey();
       f.psn = Psn(0x1000);
       return to_own(p, f, 256);
     },
     counted_as(RcEvent::kPsnGap)},
    {"acknowledgements of what was not sent",
     [](Ports& p) { return answers_to_own(p, Opcode::kAcknowledge, kSyndromeAck); },
     counted_as(RcEvent::kGhostAck)},
    {"NAKs: out of sequence",
     [](Ports& p) { return answers_to_own(p, Opcode::kAcknowledge, kSyndromeNak); },
     counted_as(RcEvent::kNakReceived)},
    {"NAKs: receiver not ready",
     [](Ports& p) { return answers_to_own(p, Opcode::kAcknowledge, kSyndromeRnrNak | 1); },
     counted_as(RcEvent::kRnrReceived)},
    {"CNPs to its own queue pairs", [](Ports& p) { return answers_to_own(p, Opcode::kCnp, 0); },
     [](const Ports& p) { return p.counters().cnp_received; }},
    {"RDMA-CM in the other peer's name",
     [](Ports& p) {
       RoceFields f;
       f.opcode = Opcode::kUdSendOnly;
       f.dest_qpn = f.src_qpn = kGsiQpn;
       f.qkey = kGsiQkey;
       RoceAddressing a = p.addressing();
       a.src = node_ip(kGood);
       return many(roce_frame(a, f, std::vector<uint8_t>(256)));
     },
     dropped_for(Drop::kWrongAddress)},
    {"CNPs to the other peer's queue pairs",
     [](Ports& p) {
       RoceFields f;
       f.opcode = Opcode::kCnp;
       f.dest_qpn = p.victim();
       return many(p.request(0, f));
     },
     dropped_for(Drop::kWrongAddress)},
    {"ARP requests", [](Ports&) { return many(arp(kFlooder, node_mac(kFlooder))); }, answered},
    {"ARP requests in the other peer's name",
     [](Ports&) {
       return many(arp(kGood, MacAddress{{2, 0, 0, 0, 0, 0x66}}));
     },
     answered},
    {"neighbour solicitations",
     [](Ports& p) { return many(solicitation(p.addressing(true), node_ip(kFlooded, true))); },
     answered},
    {"echo requests", [](Ports& p) { return many(echo_request(p.addressing(), 1000)); }, answered},
    {"TCP connects, which the host does not take",
     [](Ports& p) { return many(tcp_syn(p.addressing())); },
     [](const Ports& p) { return p.counters().to_host + p.drops(Drop::kHostRingFull); }},
    {"PFC pauses of all classes", [](Ports&) { return many(pause_of_all_classes()); },
     [](const Ports& p) { return p.counters().rx_frames; }},
};

class Flood : public testing::TestWithParam<size_t> {
 protected:
  const Kind& kind() const { return kKinds[GetParam()]; }
};

/// Thousandths of what they have alone, of the group that has least.
uint64_t least_share(const Rates& now, const Rates& alone) {
  uint64_t least = 1000;
  for (const auto& [group, bytes] : alone) least = std::min(least, now.at(group) * 1000 / bytes);
  return least;
}

/// While nobody floods: in two measurements, with a pause between them.
struct Alone {
  Rates first, then;
};
const Alone& alone() {
  static const Alone rates = [] {
    Ports ports;
    ports.run(kWarmUp, {});
    Alone out;
    out.first = ports.measure({});
    ports.run(kWarmUp, {});
    out.then = ports.measure({});
    return out;
  }();
  return rates;
}

TEST_P(Flood, LeavesOthersTheirRate) {
  for (const auto& [group, bytes] : alone().first)
    EXPECT_GT(bytes, 150'000u) << group.first << group.second;
  Ports ports;
  const Frames frames = kind().frames(ports);
  ports.run(kWarmUp, frames);  // buffers of the test's own grow
  const long long before = live_bytes;
  const uint64_t during = least_share(ports.measure(frames), alone().first);
  const long long grown = live_bytes - before;
  ports.run(kWarmUp, {});
  const uint64_t after = least_share(ports.measure({}), alone().then);
  EXPECT_GE(during, 900u);
  EXPECT_GE(after, 950u);
  EXPECT_LT(std::abs(grown), 1 << 16);
  EXPECT_GE(kind().seen(ports) * 10, ports.flooded() * 9);
  EXPECT_EQ(ports.lost(), 0u) << "a connection of the other peer's has ended";
  if (table()) {
    std::printf("| %s | %.1f | %.1f | %lld | %.0f |\n", kind().name,
                static_cast<double>(during) / 10, static_cast<double>(after) / 10, grown,
                ports.flood_ns());
  }
}
INSTANTIATE_TEST_SUITE_P(Kinds, Flood, testing::Range(size_t{0}, kKinds.size()));

// Right packets in such numbers are traffic like any other: on a link that they fill there is little left for others, as on a wire. Other
// links do not notice.
TEST(FloodThatFillsALink, OtherNodesKeepTheirRate) {
  const Rate rate = Rate::bits_per_second(1'000'000'000);
  Ports quiet(rate), ports(rate);
  RoceFields f = write_request();
  f.rkey = ports.rkey();
  const Frames frames = to_own(ports, f, 256);  // 2.1 Gbit/s
  quiet.run(kWarmUp, {});
  ports.run(kWarmUp, frames);
  const Rates alone = quiet.measure({}), flooded = ports.measure(frames);
  const auto share = [&](NodeId node) {
    uint64_t least = 1000;
    for (const bool inward : {false, true}) {
      least = std::min(least, flooded.at({node, inward}) * 1000 / alone.at({node, inward}));
    }
    return least;
  };
  EXPECT_GE(share(kOther), 900u);
  EXPECT_LT(share(kFlooded), 500u) << "it was to fill that node's link";
  EXPECT_EQ(ports.lost(), 0u);
  if (table()) {
    std::printf(
        "a flood of 2.1 Gbit/s of right requests to a node with 1 Gbit/s: others keep %.1f %% with "
        "that node, %.1f %% with the other\n",
        static_cast<double>(share(kFlooded)) / 10, static_cast<double>(share(kOther)) / 10);
  }
}

}  // namespace
}  // namespace understudy
