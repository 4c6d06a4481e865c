// What NICs take beside their links, packet by packet and as rates: closed forms to the picosecond.
#include <map>

#include "dataplane/fabric/routes.h"
#include "dataplane/flows/flow_model.h"
#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

const Rate k100G = Rate::bits_per_second(100'000'000'000);
const Duration kUs = Duration::us(1);
constexpr Duration kPacket = Duration::ns(320), kAck = Duration::ns(4);

/// NICs "h0" and "h1" at a switch, with what they take.
Graph pair_of(const NicLimits& from, const NicLimits& to) {
  Graph g;
  const VertexId s = g.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
  const NicLimits* nics[] = {&from, &to};
  for (uint32_t i = 0; i < 2; ++i) {
    const VertexId nic = g.add_vertex({VertexKind::kNic, numbered("h", i), i, 0, 0, *nics[i]});
    const LinkId link = g.connect(nic, s, k100G, kUs);
    g.link(link).limits = g.link(reverse(link)).limits = nics[i]->packets;
  }
  return g;
}

FlowResult run_one(const Graph& g, uint64_t bytes, uint64_t* acks = nullptr) {
  FlowRun r(g, {flow_of(g, {"h0", "s", "h1"}, bytes)}, store_and_forward(), bare());
  r.run();
  if (acks != nullptr) *acks = r.net.counters(path_of(g, {"h1", "s"})[0]).packets;
  EXPECT_TRUE(r.traffic.all_finished());
  return r.traffic.results()[0];
}

TEST(FlowNics, ProgramsHearLaterAndNicsAnswerInBetween) {
  NicLimits from, to;
  from.lead = Duration::ns(450);
  from.tail = Duration::ns(70);
  to.tail = Duration::ns(200);
  to.ack_delay = Duration::ns(120);
  const FlowResult f = run_one(pair_of(from, to), 4'000);
  const Duration at_nic = from.lead + kPacket * 2 + kUs * 2;
  EXPECT_EQ(f.start, Time::zero());
  EXPECT_EQ(f.received - Time::zero(), at_nic + to.tail);
  EXPECT_EQ(f.acknowledged - Time::zero(), at_nic + to.ack_delay + kAck * 2 + kUs * 2 + from.tail);
}

// A receiver may hear later than the sender: both count.
TEST(FlowNics, AFlowHasEndedWhenBothHaveHeard) {
  NicLimits to;
  to.tail = Duration::ms(1);
  const FlowResult f = run_one(pair_of({}, to), 4'000);
  EXPECT_EQ(f.received - Time::zero(), kPacket * 2 + kUs * 2 + to.tail);
  EXPECT_LT(f.acknowledged, f.received);
}

TEST(FlowNics, PacketsAreNoCloserThanTheNicAllows) {
  NicLimits nic;
  nic.packets.least = Duration::ns(500);
  // The sender's NIC holds them apart, and the last one crosses the other link.
  EXPECT_EQ(run_one(pair_of(nic, {}), 400'000).received - Time::zero(),
            nic.packets.least * 100 + kPacket + kUs * 2);
  // The receiver's does the same behind the switch.
  EXPECT_EQ(run_one(pair_of({}, nic), 400'000).received - Time::zero(),
            kPacket + nic.packets.least * 100 + kUs * 2);
}

TEST(FlowNics, PayloadIsNoFasterThanPcie) {
  NicLimits nic;
  nic.packets.pcie = Rate::bits_per_second(50'000'000'000);
  const Duration packet = nic.packets.pcie.time_for(4'000 - PacketLimits::kHeaders);
  ASSERT_GT(packet, kPacket);
  EXPECT_EQ(run_one(pair_of(nic, {}), 400'000).received - Time::zero(),
            packet * 100 + kPacket + kUs * 2);
}

TEST(FlowNics, OneAcknowledgementForSeveralPackets) {
  NicLimits to;
  uint64_t each = 0, fourth = 0;
  run_one(pair_of({}, to), 402'000, &each);
  to.ack_every = 4;
  run_one(pair_of({}, to), 402'000, &fourth);
  EXPECT_EQ(each, 101u);
  EXPECT_EQ(fourth, 26u) << "25 fours, and the last packet";
}

/// When a flow from h0 to h1 has been acknowledged, beside one of 100 packets the other way.
Time acknowledged_beside_data(uint16_t ahead, uint16_t again, uint64_t* back = nullptr) {
  NicLimits nic;
  nic.ahead = ahead;
  nic.again = again;
  const Graph g = pair_of({}, nic);
  FlowRun r(g, {flow_of(g, {"h0", "s", "h1"}, 4'000), flow_of(g, {"h1", "s", "h0"}, 400'000)},
            store_and_forward(), bare());
  r.run();
  EXPECT_TRUE(r.traffic.all_finished());
  if (back != nullptr) *back = r.traffic.results()[1].packets;
  return r.traffic.results()[0].acknowledged;
}

// The one packet is there after 2 us and two times a packet: the seventh packet of the other flow
// has just begun to leave h1 then, or is about to. An acknowledgement takes 4 ns on each link, and
// the switch has a packet of the other flow before it.
TEST(FlowNics, AcknowledgementsWaitBehindWhatWasHandedOver) {
  const Time first = acknowledged_beside_data(0, 0);
  uint64_t packets = 0;
  const Time all = acknowledged_beside_data(100, 99, &packets);
  EXPECT_EQ(packets, 100u);
  EXPECT_EQ(all, Time::zero() + kPacket * 101 + kUs * 2 + kAck)
      << "behind the whole flow, on both links";
  EXPECT_EQ(acknowledged_beside_data(4, 3) - first, kPacket * 4);
  EXPECT_LT(acknowledged_beside_data(4, 0), acknowledged_beside_data(4, 3));
  EXPECT_GT(acknowledged_beside_data(4, 0), first);
}

// A queue pair has one acknowledgement that waits for its link (rule A4.10): it speaks for all that
// came in meanwhile.
// rules: A4.10
TEST(FlowNics, AnAcknowledgementThatWaitsSpeaksForTheMessagesThatFollow) {
  const Graph g = star(2, k100G, kUs);
  for (const bool connected : {false, true}) {
    // Three short messages, each 8 ns, come in while a packet of 320 ns leaves their receiver.
    std::vector<FlowSpec> flows(3, flow_of(g, {"h0", "s", "h1"}, 100));
    if (connected) {
      for (FlowSpec& f : flows) f.connection = 1;
    }
    flows.push_back(flow_of(g, {"h1", "s", "h0"}, 400'000));
    FlowRun r(g, flows, store_and_forward(), bare());
    r.run();
    EXPECT_TRUE(r.traffic.all_finished());
    const std::vector<FlowResult>& f = r.traffic.results();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(f[i].delivered, 100u);
    EXPECT_EQ(r.net.counters(path_of(g, {"h1", "s"})[0]).packets, connected ? 101u : 103u);
    EXPECT_EQ(f[0].acknowledged == f[1].acknowledged, connected);
    EXPECT_EQ(f[2].acknowledged - f[0].acknowledged, connected ? Duration() : kAck * 2);
  }
}

/// A flow that somebody hears of, as a rate.
struct Heard : FlowListener {
  Heard(const Graph& g, uint64_t bytes, bool cut_through) : specs{FlowSpec()} {
    specs[0].from = g.find("h0");
    specs[0].to = g.find("h1");
    specs[0].bytes = bytes;
    senders.paths.push_back(path_of(g, {"h0", "s", "h1"}));
    senders.of.push_back(0);
    FlowModel model(g, specs, senders, frames, cut_through);
    model.hold(0);
    model.listen(*this);
    model.start();
    model.release(0, Time::zero());
    while (!model.next().is_never()) model.step();
    start = model.times()[0].start;
  }
  void on_received(uint32_t, Time now) override { received = now; }
  void on_acknowledged(uint32_t, Time now) override { acknowledged = now; }
  void on_wake(uint32_t, Time) override {}

  std::vector<FlowSpec> specs;
  FlowSenders senders;
  const FlowSettings frames = bare();
  Time start, received, acknowledged;
};

// A single packet's times are the packets'; of more it is what they take together.
TEST(FlowNics, AsRatesTheyTakeTheSame) {
  NicLimits nic;
  nic.packets = {Duration::ns(400), Rate::bits_per_second(60'000'000'000)};
  nic.lead = Duration::ns(450);
  nic.tail = Duration::ns(200);
  nic.ack_delay = Duration::ns(120);
  NicLimits other = nic;
  other.lead = Duration::ns(30);
  other.tail = Duration::ns(700);
  for (const auto& [from, to] : {std::pair{nic, other}, {other, nic}, {nic, NicLimits()}}) {
    const Graph g = pair_of(from, to);
    for (const uint64_t bytes : {100u, 4'000u, 400'000u}) {
      const FlowResult packets = run_one(g, bytes);
      const Heard rate(g, bytes, false);
      EXPECT_EQ(rate.start, packets.start) << bytes;
      EXPECT_NEAR(static_cast<double>(rate.received.ps()),
                  static_cast<double>(packets.received.ps()), 200)
          << bytes;
      EXPECT_NEAR(static_cast<double>(rate.acknowledged.ps()),
                  static_cast<double>(packets.acknowledged.ps()), 200)
          << bytes;
    }
  }
}

}  // namespace
}  // namespace understudy
