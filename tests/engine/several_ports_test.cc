// A shard with two real nodes: what they say to each other and to the host beside RoCE, and what
// the host says to them.
#include <gtest/gtest.h>

#include <array>

#include "tests/engine/rig.h"
#include "tests/rigs/neighbour_frames.h"

namespace understudy {
namespace {

constexpr NodeId kFirst = 0, kSecond = 1, kEmulated = 2;

std::vector<uint8_t> tcp_frame(NodeId from, NodeId to) {
  RoceAddressing a;
  a.src_mac = node_mac(from);
  a.dst_mac = node_mac(to);
  a.src = node_ip(from);
  a.dst = node_ip(to);
  std::vector<uint8_t> out(a.l2_bytes() + a.l3_bytes() + 40, 0x5a);
  write_l2_l3(out.data(), a, kIpProtoTcp, 40);
  return out;
}

class SeveralPorts : public testing::Test {
 protected:
  /// `change`: what is special about a node's NIC.
  void make(const std::function<void(NodeNic&)>& change) {
    ShardConfig config = rig_config(Rate(), Duration(), 3);
    NodeTable nodes;
    for (NodeNic nic : config.nodes.nics()) {
      nic.real = nic.id != kEmulated;
      change(nic);
      nodes.add(nic);
    }
    config.nodes = nodes;
    config.wires.resize(2);
    shard = std::make_unique<Shard>(config);
  }
  void receive(uint32_t port, std::span<const uint8_t> frame) {
    const std::span<const uint8_t> one[] = {frame};
    shard->rx({now, Duration(), one, port});
    poll();
  }
  void give(std::span<const uint8_t> frame) {
    uint8_t* at = shard->from_host().reserve(static_cast<uint32_t>(frame.size()));
    ASSERT_NE(at, nullptr);
    std::copy(frame.begin(), frame.end(), at);
    shard->from_host().commit(static_cast<uint32_t>(frame.size()));
    poll();
  }
  void poll() {
    TxSink* const to[] = {&sinks[0], &sinks[1]};
    for (RigSink& sink : sinks) sink.now = now;
    shard->poll(now, to);
  }
  void advance(Duration by) {
    const Time until = now + by;
    while (shard->next_wake() <= until) {
      now = std::max(now, shard->next_wake());
      poll();
    }
    now = until;
  }

  std::unique_ptr<Shard> shard;
  std::array<RigSink, 2> sinks;
  Time now;
};

TEST_F(SeveralPorts, RealNodesFindAndReachEachOther) {
  make([](NodeNic&) {});
  receive(0, arp_request(node_ip(kFirst), node_ip(kSecond)));
  receive(0, tcp_frame(kFirst, kSecond));
  ASSERT_EQ(sinks[1].sent.size(), 2u);
  EXPECT_EQ(sinks[1].sent[1].bytes, tcp_frame(kFirst, kSecond));
  EXPECT_EQ(shard->to_host().front().data(), nullptr);
}

TEST_F(SeveralPorts, AFloodTakesNoRoomAtTheHostFromOthers) {
  make([](NodeNic&) {});
  const auto dropped = [&](uint32_t port) {
    return shard->counters(port).drops[static_cast<size_t>(Drop::kHostRingFull)];
  };
  uint64_t flooded = 0;
  while (dropped(0) == 0) {
    ASSERT_LT(++flooded, 1u << 20);
    receive(0, tcp_frame(kFirst, kEmulated));
  }
  receive(1, tcp_frame(kSecond, kEmulated));
  EXPECT_EQ(dropped(1), 0u);
  shard->to_host().pop();  // one of the flooder's
  EXPECT_EQ(Parsed(shard->to_host().front()).view.src, node_ip(kSecond));
}

TEST_F(SeveralPorts, TheHostSpeaksForANodeWithoutTcp) {
  make([](NodeNic& nic) { nic.host_speaks = nic.id == kSecond; });
  receive(0, arp_request(node_ip(kFirst), node_ip(kSecond)));
  EXPECT_EQ(sinks[1].sent.size(), 1u) << "it has a MAC of its own";
  receive(0, tcp_frame(kFirst, kSecond));
  EXPECT_EQ(sinks[1].sent.size(), 1u);
  const auto given = shard->to_host().front();
  ASSERT_NE(given.data(), nullptr);
  EXPECT_EQ(Parsed(given).view.dst, node_ip(kSecond));
  give(tcp_frame(kSecond, kFirst));
  ASSERT_EQ(sinks[0].sent.size(), 1u);
  EXPECT_EQ(Parsed(sinks[0].sent[0].bytes).view.src_mac, node_mac(kSecond));
  EXPECT_EQ(sinks[1].sent.size(), 1u);
}

TEST_F(SeveralPorts, WhatWaitsForANodeThatIsNotThereDoesNotHoldUpOthers) {
  make([](NodeNic& nic) { nic.mac_known = nic.id != kFirst; });
  give(tcp_frame(kEmulated, kFirst));
  give(tcp_frame(kEmulated, kSecond));
  EXPECT_EQ(sinks[0].sent.size(), 1u) << "it is asked for";
  advance(Duration::ms(50));
  ASSERT_EQ(sinks[1].sent.size(), 1u);
  EXPECT_EQ(sinks[1].sent[0].bytes, tcp_frame(kEmulated, kSecond));
  EXPECT_EQ(shard->counters(0).drops[static_cast<size_t>(Drop::kNoNeighbour)], 1u);
  // Once it is there, it gets what comes again.
  receive(0, tcp_frame(kFirst, kEmulated));
  give(tcp_frame(kEmulated, kFirst));
  EXPECT_EQ(sinks[0].sent.size(), 2u);
}

TEST_F(SeveralPorts, EachNodeIsAskedForByItself) {
  make([](NodeNic& nic) { nic.mac_known = nic.id == kEmulated; });
  give(tcp_frame(kEmulated, kFirst));
  give(tcp_frame(kEmulated, kSecond));
  advance(Duration::ms(50));
  EXPECT_EQ(sinks[0].sent.size(), 1u);
  EXPECT_EQ(sinks[1].sent.size(), 1u) << "though the other one was just asked for";
}

// A node may say of its own address only where it is.
TEST_F(SeveralPorts, NobodySpeaksInTheNameOfANodeAtAnotherPort) {
  make([](NodeNic&) {});
  auto claim = arp_request(node_ip(kFirst), node_ip(kEmulated));
  const MacAddress third{{2, 0, 0, 0, 0, 0x66}};
  for (const MacAddress& mac : {node_mac(kSecond), third}) {
    std::copy_n(mac.bytes.begin(), 6, claim.begin() + 6);
    receive(1, claim);
  }
  RoceAddressing a;
  a.src_mac = third;
  a.dst_mac = node_mac(kEmulated);
  a.src = node_ip(kFirst);
  a.dst = node_ip(kEmulated);
  RoceFields mad;
  mad.opcode = Opcode::kUdSendOnly;
  mad.dest_qpn = mad.src_qpn = kGsiQpn;
  mad.qkey = kGsiQkey;
  receive(1, roce_frame(a, mad, std::vector<uint8_t>(256)));
  EXPECT_EQ(shard->counters(1).drops[static_cast<size_t>(Drop::kWrongAddress)], 1u);
  give(tcp_frame(kEmulated, kFirst));
  ASSERT_FALSE(sinks[0].sent.empty());
  EXPECT_EQ(Parsed(sinks[0].sent.back().bytes).view.dst_mac, node_mac(kFirst));
  // Where it is it may have another MAC than before.
  receive(0, claim);
  give(tcp_frame(kEmulated, kFirst));
  EXPECT_EQ(Parsed(sinks[0].sent.back().bytes).view.dst_mac, third);
}

}  // namespace
}  // namespace understudy
