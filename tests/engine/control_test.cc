// Queue pairs under congestion control: packets start exactly when the law's rate lets them, what
// the law hears, and that nobody waits for somebody else's pacing.
#include <gtest/gtest.h>

#include <random>

#include "dataplane/cc/make_controller.h"
#include "tests/engine/rig.h"

namespace understudy {
namespace {

constexpr Time kZero = Time::zero();
constexpr uint32_t kMtu = 1024;
constexpr uint64_t kFullWireBytes = 14 + 20 + 8 + 12 + kMtu + 4 + 24;
constexpr uint64_t kRethBytes = 16;

/// Does what the test says and keeps what it hears.
class TestLaw final : public Controller {
 public:
  explicit TestLaw(Rate rate, uint64_t window = kNoWindow) : Controller(rate, window) {}
  void start(Time now) override { starts.push_back(now); }
  void on_ack(const AckHeard& ack) override { acks.push_back(ack); }
  void on_cnp(Time now) override {
    cnps.push_back(now);
    if (!after_cnp.is_unlimited()) rate_ = after_cnp;
  }
  void on_sent(Time now, uint64_t bytes) override { sent.emplace_back(now, bytes); }
  Time deadline() const override { return timer; }
  void on_timer(Time now) override {
    timers.push_back(now);
    timer = Time::never();
    if (!after_timer.is_unlimited()) rate_ = after_timer;
  }
  bool rate_changes_gap() const override { return stretches; }

  Rate after_cnp, after_timer;
  Time timer = Time::never();
  bool stretches = false;
  std::vector<Time> starts, cnps, timers;
  std::vector<AckHeard> acks;
  std::vector<std::pair<Time, uint64_t>> sent;
};

class Control : public testing::Test {
 protected:
  void build(const ShardConfig& config) {
    pair = std::make_unique<RigPair>(config);
    rkey_real = pair->real.add_region(0, 1 << 30);
    rkey_emulated = pair->emulated.add_region(1, 1 << 30);
  }
  void build() {
    ShardConfig config = rig_config(Rate(), Duration());
    config.control_users = 2;
    config.packets = 4096;
    build(config);
  }
  /// A connection; `law` steers the emulated end.
  void connect(uint32_t slot, std::unique_ptr<Controller> law, uint32_t user = 0,
               uint32_t logged = 64) {
    QpControl::Setup setup;
    setup.controller = std::move(law);
    setup.user = user;
    setup.logged = logged;
    setup.switches = 3;
    auto* control = setup.controller == nullptr ? nullptr : new QpControl(std::move(setup));
    controls.emplace_back(control);
    Rig& rig = pair->emulated;
    rig.qps.push_back(std::make_unique<Qp>(rig.qp_config(slot, 1, 0), rig.shard.regions(),
                                           rig.shard.rc_counters(), rig.endpoint));
    rig.qps.back()->responder().set_endless_receives();
    Command c;
    c.kind = CommandKind::kAddQp;
    c.qp = rig.qps.back().get();
    c.endpoint = &rig.endpoint;
    c.control = control;
    ASSERT_EQ(rig.command(c), ReplyStatus::kDone);
    pair->real.add_qp(pair->real.qp_config(slot, 0, 1));
  }
  TestLaw& connect_law(uint32_t slot, Rate rate, uint64_t window = Controller::kNoWindow) {
    auto law = std::make_unique<TestLaw>(rate, window);
    TestLaw& result = *law;
    connect(slot, std::move(law));
    return result;
  }
  void write(uint32_t slot, uint32_t length, bool from_real = false) {
    WorkRequest r;
    r.length = length;
    r.rkey = from_real ? rkey_emulated : rkey_real;
    Rig& rig = from_real ? pair->real : pair->emulated;
    ASSERT_TRUE(rig.shard.post(rig.now, *rig.qps[slot], r));
  }
  void cnp(uint32_t slot, Time at) {
    pair->run(at);
    Rig& rig = pair->emulated;
    RoceAddressing a = rig.qps[slot]->config().addressing;
    std::swap(a.src_mac, a.dst_mac);
    std::swap(a.src, a.dst);
    rig.receive(roce_frame(a, cnp_fields(rig.qps[slot]->config().qpn, 0xffff, true),
                           std::vector<uint8_t>(kCnpPadBytes)));
    rig.poll(at);
  }
  /// When data packets of queue pair `slot` left.
  std::vector<Time> departures(uint32_t slot = 0) const {
    std::vector<Time> times;
    for (const SentFrame& f : pair->to_real) {
      const Parsed p(f.bytes);
      const bool data = p.roce.payload_bytes > 0 && p.roce.info().kind != OpKind::kCnp;
      if (data && p.roce.dest_qpn == pair->emulated.qps[slot]->config().remote_qpn) {
        times.push_back(f.scheduled);
      }
    }
    return times;
  }

  std::unique_ptr<RigPair> pair;
  std::vector<std::unique_ptr<QpControl>> controls;
  Rkey rkey_real = 0, rkey_emulated = 0;
};

TEST_F(Control, PacketsStartOneAfterAnotherAtTheRate) {
  for (const uint64_t bps :
       {1'000'000ull, 3'333'333'333ull, 25'000'000'007ull, 400'000'000'000ull}) {
    const Rate rate = Rate::bits_per_second(bps);
    build();
    TestLaw& law = connect_law(0, rate);
    write(0, 20 * kMtu);
    pair->run(kZero + Duration::s(1));
    std::vector<Time> expected;
    Time next = kZero;
    for (int i = 0; i < 20; ++i) {
      expected.push_back(next);
      next += rate.time_for(kFullWireBytes + (i == 0 ? kRethBytes : 0));
    }
    EXPECT_EQ(departures(), expected) << bps;
    ASSERT_EQ(law.sent.size(), 20u);
    EXPECT_EQ(law.sent[0].second, kFullWireBytes + kRethBytes);
    EXPECT_EQ(law.sent[19].second, kFullWireBytes);
    EXPECT_EQ(law.starts, std::vector<Time>{kZero});
    EXPECT_EQ(pair->emulated.endpoint.completed.size(), 1u);
  }
}

TEST_F(Control, AFullLinkDelaysAndGivesNoClaim) {
  // Two queue pairs, each at the whole link's rate: they share it, and neither catches up later.
  const Rate slow = Rate::bits_per_second(100'000'000);
  ShardConfig config = rig_config(slow, Duration());
  build(config);
  connect_law(0, slow);
  connect_law(1, slow);
  write(0, 10 * kMtu);
  write(1, 10 * kMtu);
  pair->run(kZero + Duration::ms(10));
  EXPECT_EQ(departures(0).size(), 10u);
  EXPECT_EQ(departures(1).size(), 10u);
  const Time end = kZero + slow.time_for(20 * kFullWireBytes + 2 * kRethBytes);
  EXPECT_EQ(std::max(departures(0).back(), departures(1).back()), end);
}

TEST_F(Control, NobodyWaitsForAnothersPacing) {
  build();
  connect_law(0, Rate::bits_per_second(1'000'000));
  connect(1, nullptr);
  write(0, 100 * kMtu);
  write(1, 100 * kMtu);
  pair->run(kZero + Duration::us(1));
  EXPECT_EQ(departures(0).size(), 1u);
  EXPECT_EQ(departures(1).size(), 100u);
}

TEST_F(Control, AcksAreNotHeldBack) {
  build();
  connect_law(0, Rate::bits_per_second(1'000'000));  // a packet takes 8.7 ms
  write(0, 10 * kMtu);
  pair->run(kZero + Duration::us(1));
  write(0, 64, true);
  pair->run(kZero + Duration::us(2));
  EXPECT_EQ(pair->real.endpoint.completed.size(), 1u);
}

TEST_F(Control, ReadResponsesArePaced) {
  const Rate rate = Rate::bits_per_second(1'000'000'000);
  build();
  TestLaw& law = connect_law(0, rate);
  WorkRequest read;
  read.op = WorkOp::kRead;
  read.length = 8 * kMtu;
  read.rkey = rkey_emulated;
  ASSERT_TRUE(pair->real.shard.post(kZero, *pair->real.qps[0], read));
  pair->run(kZero + Duration::ms(1));
  std::vector<Time> expected;
  Time next = kZero;
  for (int i = 0; i < 8; ++i) {
    expected.push_back(next);
    next += rate.time_for(kFullWireBytes + (i == 0 ? 4 : 0));  // an AETH
  }
  EXPECT_EQ(departures(), expected);
  EXPECT_TRUE(law.acks.empty());
  EXPECT_EQ(pair->real.endpoint.completed.size(), 1u);
}

TEST_F(Control, ARateThatChangesTakesEffectBehindTheNextPacketOrAtOnce) {
  const Rate fast = Rate::bits_per_second(1'000'000'000), slow = Rate::bits_per_second(500'000'000);
  const Duration first = fast.time_for(kFullWireBytes + kRethBytes);
  const Duration gap = fast.time_for(kFullWireBytes), wide = slow.time_for(kFullWireBytes);
  for (const bool stretches : {false, true}) {
    for (const bool up : {false, true}) {
      SCOPED_TRACE(testing::Message() << stretches << up);
      build();
      TestLaw& law = connect_law(0, up ? slow : fast);
      law.stretches = stretches;
      law.after_cnp = up ? fast : slow;
      write(0, 5 * kMtu);
      const Duration before = up ? first * 2 : first, old_gap = up ? wide : gap;
      const Duration new_gap = up ? gap : wide;
      // In the gap behind the second packet, before any end that it may have.
      cnp(0, kZero + before + gap / 2);
      EXPECT_EQ(law.cnps, std::vector<Time>{kZero + before + gap / 2});
      pair->run(kZero + Duration::ms(1));
      std::vector<Time> expected = {kZero, kZero + before};
      expected.push_back(expected.back() + (stretches ? new_gap : old_gap));
      expected.push_back(expected.back() + new_gap);
      expected.push_back(expected.back() + new_gap);
      ASSERT_EQ(departures().size(), 5u);
      for (size_t i = 0; i < 5; ++i) {
        // 2 * first differs from slow's own time by a rounded picosecond.
        EXPECT_LE(std::abs((departures()[i] - expected[i]).ps()), 1) << i;
      }
    }
  }
}

TEST_F(Control, TheLawsTimerRingsInTime) {
  build();
  TestLaw& law = connect_law(0, Rate::bits_per_second(1'000'000));
  law.timer = kZero + Duration::us(123);
  law.after_timer = Rate::bits_per_second(1'000'000'000);
  law.stretches = true;
  write(0, 3 * kMtu);
  pair->run(kZero + Duration::ms(1));
  EXPECT_EQ(law.timers, std::vector<Time>{kZero + Duration::us(123)});
  ASSERT_EQ(departures().size(), 3u);
  EXPECT_EQ(departures()[1], kZero + Duration::us(123));  // the new rate's gap is over already
}

// rules: A7.1
TEST_F(Control, TheLawHearsRoundTrips) {
  const Duration latency = Duration::us(7);
  ShardConfig config = rig_config(Rate(), latency);
  build(config);
  const Rate rate = Rate::bits_per_second(1'000'000'000);
  TestLaw& law = connect_law(0, rate);
  write(0, 3 * kMtu);
  write(0, 100);
  pair->run(kZero + Duration::ms(1));
  ASSERT_EQ(law.acks.size(), 2u);  // one for each message: its last packet asks
  const Duration round_trip = latency * 4;
  const Time third = law.sent[2].first, fourth = law.sent[3].first;
  EXPECT_EQ(law.acks[0].at, third + round_trip);
  EXPECT_EQ(law.acks[0].rtt, round_trip);
  EXPECT_EQ(law.acks[0].acked, 3u * kMtu);
  EXPECT_EQ(law.acks[0].newly_acked, 3u * kMtu);
  EXPECT_EQ(law.acks[0].sent, 3u * kMtu + 100);
  EXPECT_EQ(law.acks[0].switches, 3u);
  EXPECT_FALSE(law.acks[0].marked);
  EXPECT_EQ(law.acks[1].at, fourth + round_trip);
  EXPECT_EQ(law.acks[1].newly_acked, 100u);
}

TEST_F(Control, AWindowLimitsWhatIsInFlight) {
  const Duration latency = Duration::us(7);
  ShardConfig config = rig_config(Rate(), latency);
  build(config);
  TestLaw& law = connect_law(0, Rate(), 3 * kMtu);
  for (int i = 0; i < 9; ++i) write(0, kMtu);
  pair->run(kZero + Duration::ms(1));
  const Duration round_trip = latency * 4;
  ASSERT_EQ(law.sent.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(law.sent[i].first, kZero + round_trip * static_cast<int64_t>(i / 3)) << i;
  }
  EXPECT_EQ(pair->emulated.endpoint.completed.size(), 9u);
}

class ControlLoss : public Control {
 protected:
  /// The packet with this PSN is lost once.
  void build_lossy(uint32_t psn) {
    ShardConfig config = rig_config(Rate(), Duration::us(5));
    Fault f;
    f.action = FaultAction::kDrop;
    f.direction = FaultDirection::kToReal;
    f.nth = psn + 1;
    config.faults = {f};
    build(config);
  }
};

TEST_F(ControlLoss, RepetitionsArePacedAndGiveNoRoundTrip) {
  build_lossy(2);
  const Rate rate = Rate::bits_per_second(1'000'000'000);
  TestLaw& law = connect_law(0, rate);
  write(0, 8 * kMtu);
  pair->run(kZero + Duration::ms(2));
  EXPECT_EQ(pair->emulated.endpoint.completed.size(), 1u);
  ASSERT_GT(law.sent.size(), 8u);
  for (size_t i = 1; i < law.sent.size(); ++i) {
    EXPECT_GE(law.sent[i].first - law.sent[i - 1].first, rate.time_for(law.sent[i - 1].second));
  }
  // The NAK acknowledges two packets that left once, the ACK eight of which the last one did; what
  // was repeated in between tells nothing.
  ASSERT_EQ(law.acks.size(), 2u);
  EXPECT_EQ(law.acks[0].newly_acked, 2u * kMtu);
  EXPECT_EQ(law.acks[1].newly_acked, 6u * kMtu);
  EXPECT_EQ(law.acks[1].rtt, Duration::us(20));
}

TEST_F(ControlLoss, AWindowAllowsGoingBack) {
  for (uint32_t lost = 0; lost < 12; ++lost) {
    build_lossy(lost);
    TestLaw& law = connect_law(0, Rate(), 4 * kMtu);
    for (int i = 0; i < 12; ++i) write(0, kMtu);
    pair->run(kZero + Duration::s(1));
    // The last packet's loss is found by nobody: there is no timeout here.
    EXPECT_EQ(pair->emulated.endpoint.completed.size(), lost == 11 ? 11u : 12u) << lost;
    EXPECT_GE(law.sent.size(), 12u);
  }
}

// rules: A6.6
TEST_F(Control, DcqcnFollowsItsOwnEquations) {
  const Rate line = Rate::bits_per_second(25'000'000'000);
  const SenderPath path{line, Duration::us(10), kMtu};
  for (const bool rate_changes_gap : {true, false}) {
    DcqcnParameters parameters;
    parameters.cnp_interval = Duration::us(50);
    parameters.rate_changes_gap = rate_changes_gap;
    build();
    connect(0, make_controller(parameters, path));
    const auto alone = make_controller(parameters, path);
    write(0, 1 << 20);
    std::mt19937_64 random(5);
    std::vector<Time> cnps;
    for (Time t = kZero + Duration::us(20); t < kZero + Duration::us(900);
         t += Duration::ps(static_cast<int64_t>(random() % 90'000'000))) {
      cnps.push_back(t);
      cnp(0, t);
    }
    cnps.push_back(Time::never());
    pair->run(kZero + Duration::s(1));
    ASSERT_EQ(departures().size(), 1024u);
    // The same law by itself, told the same: a packet starts when the one before has taken its
    // time.
    Time last, next = kZero;
    uint64_t bytes = 0;
    size_t heard = 0;
    std::vector<Time> expected;
    while (expected.size() < 1024) {
      const Time event = std::min(cnps[heard], alone->deadline());
      if (event > next) {
        expected.push_back(next);
        last = next;
        bytes = kFullWireBytes + (expected.size() == 1 ? kRethBytes : 0);
        alone->on_sent(last, bytes);
        next = last + alone->rate().time_for(bytes);
        continue;
      }
      if (event == cnps[heard]) {
        alone->on_cnp(cnps[heard++]);
      } else {
        alone->on_timer(event);
      }
      if (rate_changes_gap) next = std::max(event, last + alone->rate().time_for(bytes));
    }
    EXPECT_EQ(departures(), expected);
    EXPECT_LT(alone->rate(), line);
  }
}

TEST_F(Control, UsersAreCounted) {
  build();
  auto first = std::make_unique<TestLaw>(Rate::bits_per_second(8'000'000'000));
  first->after_cnp = Rate::bits_per_second(2'000'000'000);
  connect(0, std::move(first));
  connect(1, std::make_unique<TestLaw>(Rate::bits_per_second(4'000'000'000)), 1);
  connect(2, nullptr);
  cnp(0, kZero + Duration::us(1));
  cnp(0, kZero + Duration::us(2));
  cnp(2, kZero + Duration::us(3));
  const auto look = [&] {
    ShardSnapshot s;
    pair->emulated.shard.fit(s);
    pair->emulated.shard.snapshot(s, pair->emulated.now);
    return s;
  };
  Command remove;
  remove.kind = CommandKind::kRemoveQp;
  remove.qpn = pair->emulated.qps[0]->config().qpn;
  for (const bool removed : {false, true}) {
    if (removed) {
      ASSERT_EQ(pair->emulated.command(remove), ReplyStatus::kDone);
    }
    const ShardSnapshot s = look();
    EXPECT_EQ(s.counters.cnp_received, 3u);
    ASSERT_EQ(s.controls.size(), 2u);
    EXPECT_EQ(s.controls[0].queue_pairs, 1u);
    EXPECT_EQ(s.controls[0].cnps, 2u);
    EXPECT_EQ(s.controls[0].cuts, 1u);
    EXPECT_EQ(s.controls[0].lowest.bps(), 2'000'000'000u);
    EXPECT_EQ(s.controls[0].rate_sum, 2'000'000'000u);
    EXPECT_EQ(s.controls[1].cnps, 0u);
    EXPECT_EQ(s.controls[1].rate_sum, 4'000'000'000u);
  }
}

TEST_F(Control, ARemovedQueuePairsAlarmsRingForNobody) {
  build();
  TestLaw& law = connect_law(0, Rate::bits_per_second(1'000'000));
  law.timer = kZero + Duration::ms(3);
  write(0, 4 * kMtu);
  pair->run(kZero + Duration::us(1));
  Command remove;
  remove.kind = CommandKind::kRemoveQp;
  remove.qpn = pair->emulated.qps[0]->config().qpn;
  ASSERT_EQ(pair->emulated.command(remove), ReplyStatus::kDone);
  controls.clear();
  pair->run(kZero + Duration::ms(100));
  EXPECT_EQ(departures().size(), 1u);
}

/// The log of departures against a plain list.
TEST(Departures, RandomOnesAgainstAList) {
  struct Left {
    uint32_t first, packets, bytes;
    Time at;
    bool timed;
  };
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    DepartureLog log(1024);
    std::vector<Left> list;
    const auto start = static_cast<uint32_t>(random());
    uint32_t end = start, una = start;
    uint64_t sent = 0, acked = 0;
    for (int step = 0; step < 300; ++step) {
      const Time now = kZero + Duration::ns(step);
      if (random() % 3 != 0) {
        if (!list.empty() && random() % 4 == 0) {  // sent again
          Left& l = list[random() % list.size()];
          log.left(Psn(l.first), Psn(l.first + l.packets), now, l.bytes, true);
          l.timed = false;
          continue;
        }
        Left l{end, 1 + static_cast<uint32_t>(random() % 3), static_cast<uint32_t>(random() % 4096),
               now, random() % 5 != 0};
        log.left(Psn(l.first), Psn(l.first + l.packets), now, l.bytes, l.timed);
        end += l.packets;
        sent += l.bytes;
        list.push_back(l);
      } else if (end != una) {
        una += static_cast<uint32_t>(random() % (end - una + 1));
        std::optional<Time> expected;
        uint64_t fresh = 0;
        while (!list.empty() && list[0].first + list[0].packets <= una) {
          fresh += list[0].bytes;
          expected = list[0].timed ? std::optional(list[0].at) : std::nullopt;
          list.erase(list.begin());
        }
        acked += fresh;
        const auto heard = log.acknowledge(Psn(una));
        ASSERT_EQ(heard.bytes, fresh);
        ASSERT_EQ(heard.left, expected);
      }
      ASSERT_EQ(log.in_flight(Psn(end)), sent - acked);
      if (!list.empty()) {
        const size_t back = random() % list.size();
        uint64_t before = 0;
        for (size_t i = 0; i < back; ++i) before += list[i].bytes;
        ASSERT_EQ(log.in_flight(Psn(list[back].first)), before);
      }
    }
  }
}

TEST(Departures, BeyondItsRoomBytesStayRight) {
  DepartureLog log(4);
  for (uint32_t i = 0; i < 10; ++i) log.left(Psn(i), Psn(i + 1), kZero, 100, true);
  EXPECT_EQ(log.in_flight(Psn(10)), 1000u);
  EXPECT_EQ(log.acknowledge(Psn(3)).bytes, 300u);
  EXPECT_EQ(log.acknowledge(Psn(9)).bytes, 0u);  // the rest shares one place
  const auto last = log.acknowledge(Psn(10));
  EXPECT_EQ(last.bytes, 700u);
  EXPECT_FALSE(last.left);
  EXPECT_EQ(log.in_flight(Psn(10)), 0u);
}

}  // namespace
}  // namespace understudy
