// What an emulated address answers by itself: ARP, neighbour discovery, echo; and what it does not.
#include "dataplane/node/neighbour.h"

#include <gtest/gtest.h>

#include "tests/rigs/neighbour_frames.h"

namespace understudy {
namespace {

const IpAddress kReal4 = *IpAddress::parse("10.0.0.1"), kReal6 = *IpAddress::parse("fd00::1");
const IpAddress kNode4 = *IpAddress::parse("10.0.0.2"), kNode6 = *IpAddress::parse("fd00::2");

class Neighbour : public testing::Test {
 protected:
  Neighbour() {
    nodes.add({0, true, kMacA, kReal4, kReal6, std::nullopt});
    nodes.add({1, false, kMacB, kNode4, kNode6, std::nullopt});
  }
  /// The answer to `frame`, empty when there is none.
  std::vector<uint8_t> ask(std::span<const uint8_t> frame) {
    const Parsed p(frame);
    if (p.kind != FrameKind::kIp && p.kind != FrameKind::kArp) return {};
    const NodeNic* node = nullptr;
    query = neighbour_query(p.view, nodes, node);
    if (query == NeighbourQuery::kNone) return {};
    EXPECT_EQ(node->id, 1u);
    std::vector<uint8_t> out(frame.size() + 32, 0xcc);
    out.resize(answer_neighbour(query, p.view, *node, out));
    return out;
  }
  NodeTable nodes;
  NeighbourQuery query = NeighbourQuery::kNone;
};

TEST_F(Neighbour, Arp) {
  for (std::optional<uint16_t> tci : {std::optional<uint16_t>(), std::optional<uint16_t>(0x6064)}) {
    const Parsed answer(ask(arp_request(kReal4, kNode4, tci)));
    ASSERT_EQ(answer.kind, FrameKind::kArp);
    EXPECT_GE(answer.bytes.size(), kMinFrameBytes);
    EXPECT_EQ(answer.view.dst_mac, kMacA);
    EXPECT_EQ(answer.view.src_mac, kMacB);
    EXPECT_EQ(answer.view.vlans, tci ? 1 : 0);
    EXPECT_EQ(answer.view.vlan[0].tci, tci.value_or(0));
    ArpHeader arp;
    std::memcpy(&arp, answer.bytes.data() + answer.view.l3, sizeof arp);
    EXPECT_EQ(arp.operation.get(), 2);
    EXPECT_EQ(std::memcmp(arp.sender_mac, kMacB.bytes.data(), 6), 0);
    EXPECT_EQ(IpAddress::v4_bytes(arp.sender_ip), kNode4);
    EXPECT_EQ(std::memcmp(arp.target_mac, kMacA.bytes.data(), 6), 0);
    EXPECT_EQ(IpAddress::v4_bytes(arp.target_ip), kReal4);
  }
}

TEST_F(Neighbour, ArpThatIsNotForUs) {
  EXPECT_TRUE(ask(arp_request(kReal4, *IpAddress::parse("10.0.0.9"))).empty());
  EXPECT_TRUE(ask(arp_request(kNode4, kReal4)).empty()) << "the real node answers for itself";
  auto reply = arp_request(kReal4, kNode4);
  reply[14 + 7] = 2;
  EXPECT_TRUE(ask(reply).empty());
}

TEST_F(Neighbour, Solicitation) {
  for (std::optional<uint16_t> tci : {std::optional<uint16_t>(), std::optional<uint16_t>(100)}) {
    const Parsed answer(ask(solicitation(sample_addressing(true, tci), kNode6)));
    ASSERT_EQ(query, NeighbourQuery::kSolicitation);
    ASSERT_EQ(answer.kind, FrameKind::kIp);
    EXPECT_EQ(answer.view.dst, kReal6);
    EXPECT_EQ(answer.view.src, kNode6);
    EXPECT_EQ(answer.view.dst_mac, kMacA);
    EXPECT_EQ(answer.view.src_mac, kMacB);
    EXPECT_EQ(answer.view.ttl, 255) << "anything else is ignored (RFC 4861 7.1.2)";
    EXPECT_EQ(answer.view.vlans, tci ? 1 : 0);
    EXPECT_TRUE(icmp_checksum_ok(answer.view));
    const uint8_t* icmp = answer.bytes.data() + answer.view.l4;
    EXPECT_EQ(icmp[0], 136);
    EXPECT_EQ(icmp[4], 0x60) << "solicited, override";
    EXPECT_EQ(IpAddress::v6_bytes(icmp + 8), kNode6);
    EXPECT_EQ(icmp[24], 2);
    EXPECT_EQ(std::memcmp(icmp + 26, kMacB.bytes.data(), 6), 0);
  }
}

TEST_F(Neighbour, SolicitationsThatAreNotAnswered) {
  const RoceAddressing from = sample_addressing(true);
  EXPECT_TRUE(ask(solicitation(from, kReal6)).empty());
  EXPECT_TRUE(ask(solicitation(from, *IpAddress::parse("fd00::99"))).empty());
  RoceAddressing probe = from;
  probe.src = IpAddress();  // duplicate address detection
  EXPECT_TRUE(ask(solicitation(probe, kNode6)).empty());
  auto routed = solicitation(from, kNode6);
  routed[14 + 7] = 64;  // came through a router (RFC 4861 7.1.1)
  EXPECT_TRUE(ask(routed).empty());
}

TEST_F(Neighbour, Echo) {
  for (bool v6 : {false, true}) {
    for (uint32_t payload : {0u, 1u, 56u, 1472u, 8900u}) {
      RoceAddressing a = sample_addressing(v6, v6 ? std::optional<uint16_t>(0x2007) : std::nullopt);
      a.traffic_class = 0x48;
      const auto request = echo_request(a, payload);
      const Parsed answer(ask(request));
      ASSERT_EQ(query, NeighbourQuery::kEcho);
      ASSERT_EQ(answer.kind, FrameKind::kIp);
      ASSERT_EQ(answer.bytes.size(), request.size());
      EXPECT_EQ(answer.view.src, v6 ? kNode6 : kNode4);
      EXPECT_EQ(answer.view.dst, v6 ? kReal6 : kReal4);
      EXPECT_EQ(answer.view.src_mac, kMacB);
      EXPECT_EQ(answer.view.dst_mac, kMacA);
      EXPECT_EQ(answer.view.tos, 0x48);
      EXPECT_EQ(answer.view.vlans, v6 ? 1 : 0);
      EXPECT_TRUE(icmp_checksum_ok(answer.view));
      const uint8_t* icmp = answer.bytes.data() + answer.view.l4;
      EXPECT_EQ(icmp[0], v6 ? 129 : 0);
      EXPECT_TRUE(
          std::equal(answer.bytes.end() - payload, answer.bytes.end(), request.end() - payload));
    }
  }
}

TEST_F(Neighbour, AnEchoInFragmentsIsForTheKernel) {
  auto first = echo_request(sample_addressing(false), 1000);
  first[20] |= 0x20;  // more fragments
  EXPECT_TRUE(ask(first).empty());
  auto later = echo_request(sample_addressing(false), 1000);
  later[21] = 125;  // offset
  EXPECT_TRUE(ask(later).empty());
}

TEST_F(Neighbour, OtherIcmpIsForTheKernel) {
  auto reply = echo_request(sample_addressing(false));
  reply[34] = 0;
  EXPECT_TRUE(ask(reply).empty());
  std::vector<uint8_t> advertisement(24);
  advertisement[0] = 136;
  EXPECT_TRUE(ask(icmp_frame(sample_addressing(true), advertisement)).empty());
}

TEST_F(Neighbour, MutatedRequestsStayInBounds) {
  std::mt19937_64 random(5);
  const std::vector<std::vector<uint8_t>> samples = {
      arp_request(kReal4, kNode4, 7), solicitation(sample_addressing(true), kNode6),
      echo_request(sample_addressing(false), 9), echo_request(sample_addressing(true), 9)};
  size_t answered = 0;
  for (int round = 0; round < 40'000; ++round) {
    auto frame = samples[random() % samples.size()];
    for (size_t n = random() % 3; n > 0; --n) {
      frame[random() % frame.size()] = static_cast<uint8_t>(random());
    }
    if (random() % 3 == 0) frame.resize(random() % (frame.size() + 1));
    answered += ask(frame).empty() ? 0 : 1;
  }
  EXPECT_GT(answered, 1000u);
}

}  // namespace
}  // namespace understudy
