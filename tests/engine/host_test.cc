// What is not RoCE: neighbour answers past or through the fabric, and frames to and from the host.
#include <gtest/gtest.h>

#include "tests/engine/rig.h"
#include "tests/rigs/neighbour_frames.h"

namespace understudy {
namespace {

const Rate kSlow = Rate::bits_per_second(100'000'000);
const Duration kLatency = Duration::us(3);

/// A TCP-like packet: nothing looks at its body.
std::vector<uint8_t> ip_frame(const RoceAddressing& a, uint32_t body = 40) {
  std::vector<uint8_t> out(a.l2_bytes() + a.l3_bytes() + body, 0x5a);
  write_l2_l3(out.data(), a, 6, body);
  return out;
}

RoceAddressing between(NodeId from, NodeId to, bool v6,
                       std::optional<uint16_t> tci = std::nullopt) {
  RoceAddressing a;
  a.src_mac = node_mac(from);
  a.dst_mac = node_mac(to);
  a.src = node_ip(from, v6);
  a.dst = node_ip(to, v6);
  a.vlan_tci = tci;
  return a;
}

void give(Rig& rig, std::span<const uint8_t> frame) {
  uint8_t* at = rig.shard.from_host().reserve(static_cast<uint32_t>(frame.size()));
  ASSERT_NE(at, nullptr);
  std::copy(frame.begin(), frame.end(), at);
  rig.shard.from_host().commit(static_cast<uint32_t>(frame.size()));
}

TEST(Host, NeighbourAnswersPassByTheFabric) {
  Rig rig(rig_config(kSlow, kLatency));
  rig.advance(Duration::us(7));
  rig.receive(arp_request(node_ip(0), node_ip(1)));
  rig.receive(solicitation(between(0, 1, true), node_ip(1, true)));
  rig.receive(echo_request(between(0, 1, false)));
  rig.receive(echo_request(between(0, 1, true)));
  EXPECT_LE(rig.shard.next_wake(), rig.now);
  rig.poll(rig.now);
  ASSERT_EQ(rig.sink.sent.size(), 4u);
  for (const SentFrame& frame : rig.sink.sent) EXPECT_EQ(frame.scheduled, rig.now);
  EXPECT_EQ(rig.shard.counters().neighbour_answers, 4u);
  EXPECT_EQ(rig.shard.counters().to_host, 0u);
}

TEST(Host, EchoThroughTheFabricTakesItsTime) {
  ShardConfig config = rig_config(kSlow, kLatency);
  config.icmp_through_fabric = true;
  Rig rig(config);
  const auto request = echo_request(between(0, 1, false), 1000);
  rig.receive(request);
  rig.advance(Duration::ms(5));
  ASSERT_EQ(rig.sink.sent.size(), 1u);
  const Duration there = kSlow.time_for(request.size() + kEthernetOverheadBytes) + kLatency * 2;
  EXPECT_EQ(rig.sink.sent[0].scheduled, Time::zero() + there * 2);
  EXPECT_TRUE(icmp_checksum_ok(Parsed(rig.sink.sent[0].bytes).view));
}

TEST(Host, FramesToTheHostLoseTheirTagAndGetTheTapsMac) {
  for (bool v6 : {false, true}) {
    for (bool tagged : {false, true}) {
      ShardConfig config = rig_config(kSlow, kLatency);
      if (tagged) tag_nodes(config, 0x6064);
      Rig rig(config);
      const auto tci = tagged ? std::optional<uint16_t>(0x0064) : std::nullopt;
      const auto frame = ip_frame(between(0, 1, v6, tci), 1000);
      rig.receive(frame);
      const auto given = rig.shard.to_host().front();
      ASSERT_NE(given.data(), nullptr);
      const Parsed p(given);
      EXPECT_EQ(p.view.dst_mac, config.host_mac);
      EXPECT_EQ(p.view.src_mac, node_mac(0));
      EXPECT_EQ(p.view.vlans, 0);
      EXPECT_EQ(p.view.dst, node_ip(1, v6));
      EXPECT_TRUE(std::equal(p.bytes.begin() + p.view.l3, p.bytes.end(),
                             frame.end() - static_cast<ptrdiff_t>(p.bytes.size() - 14)));
      rig.shard.to_host().pop();
      EXPECT_EQ(rig.shard.counters().to_host, 1u);
    }
  }
}

TEST(Host, OtherPeoplesFramesAreNotGivenToIt) {
  Rig rig(rig_config(kSlow, kLatency));
  RoceAddressing a = between(0, 1, false);
  a.dst = *IpAddress::parse("10.0.0.99");
  rig.receive(ip_frame(a));
  a.dst = node_ip(0);
  rig.receive(ip_frame(a));
  EXPECT_EQ(rig.drops(Drop::kNotForUs), 2u);
  rig.receive(ip_frame(between(0, 1, false, 9)));
  EXPECT_EQ(rig.drops(Drop::kWrongVlan), 1u);
  rig.receive(arp_request(node_ip(0), *IpAddress::parse("10.0.0.99")));
  EXPECT_EQ(rig.shard.to_host().front().data(), nullptr);
}

TEST(Host, AFullRingIsCountedAndRecovers) {
  Rig rig(rig_config(kSlow, kLatency));
  const auto frame = ip_frame(between(0, 1, false), 8000);
  uint64_t sent = 0;
  for (; rig.drops(Drop::kHostRingFull) == 0; ++sent) {
    ASSERT_LT(sent, 1000u);
    rig.receive(frame);
  }
  EXPECT_EQ(rig.shard.counters().to_host, sent - 1);
  rig.shard.to_host().pop();
  rig.receive(frame);
  EXPECT_EQ(rig.shard.counters().to_host, sent);
}

TEST(Host, FramesOfTheHostGetTheNodesMacAndVlan) {
  for (bool v6 : {false, true}) {
    for (bool tagged : {false, true}) {
      ShardConfig config = rig_config(kSlow, kLatency, 3);
      if (tagged) tag_nodes(config, 0x6064);
      Rig rig(config);
      RoceAddressing a = between(2, 0, v6);
      a.src_mac = config.host_mac;
      a.dst_mac = MacAddress{{2, 0, 0, 0, 0, 0x78}};
      const auto frame = ip_frame(a, 333);
      give(rig, frame);
      rig.poll(rig.now);
      ASSERT_EQ(rig.sink.sent.size(), 1u);
      const Parsed p(rig.sink.sent[0].bytes);
      EXPECT_EQ(p.view.src_mac, node_mac(2));
      EXPECT_EQ(p.view.dst_mac, node_mac(0));
      EXPECT_EQ(p.view.vlans, tagged ? 1 : 0);
      EXPECT_EQ(p.view.vlan[0].tci, tagged ? 0x6064 : 0);
      EXPECT_TRUE(std::equal(frame.begin() + 14, frame.end(), p.bytes.begin() + p.view.l3));
      EXPECT_EQ(rig.shard.counters().from_host, 1u);
    }
  }
}

TEST(Host, FramesWaitUntilTheRealNodeIsHeard) {
  for (bool v6 : {false, true}) {
    for (bool tagged : {false, true}) {
      ShardConfig config = rig_config(kSlow, kLatency, 3);
      if (tagged) tag_nodes(config, 0x6064);
      NodeTable as_real_node_sees_it, nodes;
      for (NodeNic nic : config.nodes.nics()) {
        nic.mac_known = !nic.real;
        nodes.add(nic);
        nic.real = !nic.real;
        as_real_node_sees_it.add(nic);
      }
      config.nodes = nodes;
      Rig rig(config);
      give(rig, ip_frame(between(2, 0, v6)));
      rig.poll(rig.now);
      ASSERT_EQ(rig.sink.sent.size(), 1u);
      const Parsed question(rig.sink.sent[0].bytes);
      EXPECT_TRUE(question.view.dst_mac.is_multicast());
      EXPECT_EQ(question.view.src_mac, node_mac(2));
      EXPECT_EQ(question.view.vlans, tagged ? 1 : 0);
      const NodeNic* asked = nullptr;
      const NeighbourQuery query = neighbour_query(question.view, as_real_node_sees_it, asked);
      EXPECT_EQ(query, v6 ? NeighbourQuery::kSolicitation : NeighbourQuery::kArp);
      EXPECT_TRUE(!v6 || icmp_checksum_ok(question.view));
      ASSERT_NE(asked, nullptr);
      EXPECT_EQ(asked->id, 0u);

      rig.advance(Duration::ms(100));
      EXPECT_EQ(rig.sink.sent.size(), 1u) << "not asked again at once";
      rig.advance(Duration::ms(150));
      EXPECT_EQ(rig.sink.sent.size(), 2u);
      // Where nothing polls unless something is due, as in virtual time, it is asked again, too.
      EXPECT_EQ(rig.shard.next_wake(), rig.sink.sent[1].actual + Duration::ms(200));

      NodeNic answering = *asked;
      answering.mac = MacAddress{{2, 0, 0, 0, 0, 0x99}};
      std::vector<uint8_t> answer(200);
      answer.resize(answer_neighbour(query, question.view, answering, answer));
      rig.receive(answer);
      rig.poll(rig.now);
      ASSERT_EQ(rig.sink.sent.size(), 3u);
      EXPECT_EQ(Parsed(rig.sink.sent[2].bytes).view.dst_mac, answering.mac);
      EXPECT_EQ(rig.shard.counters().from_host, 1u);
    }
  }
}

TEST(Host, TheNamespacesOwnChatterStaysInside) {
  Rig rig(rig_config(kSlow, kLatency));
  RoceAddressing a = between(1, 0, false);
  a.src = *IpAddress::parse("10.0.0.99");
  give(rig, ip_frame(a));
  a.src = node_ip(0);
  give(rig, ip_frame(a));
  give(rig, arp_request(node_ip(1), node_ip(0)));
  give(rig, std::vector<uint8_t>{1, 2, 3});
  RoceFields roce;
  give(rig, roce_frame(between(1, 0, false), roce));  // only queue pairs speak RoCE
  rig.poll(rig.now);
  EXPECT_TRUE(rig.sink.sent.empty());
  EXPECT_EQ(rig.shard.from_host().front().data(), nullptr) << "all were taken";
}

TEST(Host, ABusyDeviceKeepsTheOrder) {
  Rig rig(rig_config(kSlow, kLatency));
  rig.sink.room = 0;
  for (uint32_t body : {100u, 200u, 300u}) give(rig, ip_frame(between(1, 0, false), body));
  rig.receive(arp_request(node_ip(0), node_ip(1)));
  rig.poll(rig.now);
  EXPECT_TRUE(rig.sink.sent.empty());
  EXPECT_GT(rig.shard.counters().tx_busy, 0u);
  rig.sink.room = 3;
  rig.poll(rig.now);
  ASSERT_EQ(rig.sink.sent.size(), 3u);
  rig.sink.room = 3;
  rig.poll(rig.now);
  ASSERT_EQ(rig.sink.sent.size(), 4u);
  EXPECT_EQ(rig.sink.sent[0].bytes.size(), 60u) << "the ARP reply";
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(rig.sink.sent[i].bytes.size(), 34 + 100 * i);
}

}  // namespace
}  // namespace understudy
