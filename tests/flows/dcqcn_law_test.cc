// One flow under DCQCN through a network whose last link is slower than its NIC: at every event
// that the sender meets, its rate is that of the difference equations, worked out independently;
// and its packets leave at that rate.
#include <random>

#include "dataplane/cc/dcqcn.h"
#include "tests/cc/dcqcn_ticking.h"
#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

Rate gbps(uint64_t n) { return Rate::bits_per_second(n * 1'000'000'000); }

struct Departure {
  Time at;
  uint64_t bytes = 0;
  uint64_t bps = 0;  ///< by the difference equations, once it has left
};

struct Record {
  std::vector<Departure> departures;
  std::vector<std::pair<Time, uint64_t>> rates;  ///< after every event that is no departure
  uint64_t cnps = 0, timers = 0, cuts = 0, raises = 0;
};

/// The sender's controller, and the recomputation beside it.
class Compared final : public Controller {
 public:
  Compared(const DcqcnParameters& p, const SenderPath& path, Record& record)
      : Controller(path.line),
        p_(p),
        law_(p, path),
        ticking_{p, static_cast<int64_t>(path.line.bps())},
        record_(record) {}

  void on_ack(const AckHeard& ack) override {
    law_.on_ack(ack);
    if (ack.marked && p_.echo == DcqcnParameters::Echo::kAck) {
      ++record_.cnps;
      ticking_.cnp(ack.at.ps());
    }
    compare(ack.at);
    record_.rates.emplace_back(ack.at, static_cast<uint64_t>(ticking_.rate));
  }
  void on_cnp(Time now) override {
    law_.on_cnp(now);
    ticking_.cnp(now.ps());
    ++record_.cnps;
    compare(now);
    record_.rates.emplace_back(now, static_cast<uint64_t>(ticking_.rate));
  }
  void on_sent(Time now, uint64_t bytes) override {
    law_.on_sent(now, bytes);
    ticking_.sent(now.ps(), static_cast<int64_t>(bytes));
    compare(now);
    record_.departures.push_back({now, bytes, static_cast<uint64_t>(ticking_.rate)});
  }
  Time deadline() const override { return law_.deadline(); }
  bool rate_changes_gap() const override { return law_.rate_changes_gap(); }
  void on_timer(Time now) override {
    law_.on_timer(now);
    ++record_.timers;
    compare(now);
    record_.rates.emplace_back(now, static_cast<uint64_t>(ticking_.rate));
  }

 private:
  void compare(Time now) {
    ticking_.run_until(now.ps());
    EXPECT_EQ(law_.rate().bps(), static_cast<uint64_t>(ticking_.rate)) << "at " << now.ps();
    EXPECT_EQ(law_.target().bps(), static_cast<uint64_t>(ticking_.target)) << "at " << now.ps();
    record_.cuts += law_.rate() < rate_ ? 1 : 0;
    record_.raises += law_.rate() > rate_ ? 1 : 0;
    rate_ = law_.rate();
  }

  const DcqcnParameters p_;
  Dcqcn law_;
  Ticking ticking_;
  Record& record_;
};

/// Gives how often the rate was cut.
Record run_one(const DcqcnParameters& p, std::mt19937_64& random) {
  Graph g;
  const VertexId s = g.add_vertex({VertexKind::kSwitch, "s", 0, 0, 1});
  const VertexId a = g.add_vertex({VertexKind::kNic, "a", 0, 0, 0});
  const VertexId b = g.add_vertex({VertexKind::kNic, "b", 1, 0, 0});
  const uint64_t line = uint64_t{25} << random() % 5;
  g.connect(a, s, gbps(line), Duration::ns(static_cast<int64_t>(100 + random() % 5000)));
  g.connect(s, b, gbps(line / 4 + random() % (line * 3 / 4)),
            Duration::ns(static_cast<int64_t>(100 + random() % 5000)));
  NetworkSettings settings;
  ClassSettings cls;
  EcnSettings ecn;
  ecn.kmin = 5'000 + random() % 100'000;
  ecn.kmax = ecn.kmin + random() % 300'000;
  ecn.pmax = static_cast<double>(1 + random() % 100) / 100;
  cls.ecn = {ecn};
  settings.classes = {cls};
  settings.seed = random();
  FlowSettings frames;
  frames.ack_every = 1 + static_cast<uint32_t>(random() % 4);
  frames.rate_counts_gap = random() % 2 == 0;
  frames.catch_up = Duration();  // of what a link's rounding takes from it
  Record record;
  FlowRun run(g, {flow_of(g, {"a", "s", "b"}, 10'000'000 + random() % 10'000'000)}, settings,
              frames, [&](const FlowSpec&, Rate rate, Duration base_rtt) {
                FlowControl control;
                control.controller =
                    std::make_unique<Compared>(p, SenderPath{rate, base_rtt, 4096}, record);
                control.cnps = p.echo == DcqcnParameters::Echo::kCnp;
                control.cnp_interval = p.cnp_interval;
                return control;
              });
  run.run();
  EXPECT_TRUE(run.traffic.all_finished());
  // A packet leaves when the one before it would have ended at the rate that held when it left; or,
  // if the knobs say so, at the rate of the moment.
  auto rate = record.rates.begin();
  for (size_t i = 1; i < record.departures.size(); ++i) {
    const Departure& before = record.departures[i - 1];
    const Time at = record.departures[i].at;
    const auto ends = [&](uint64_t bps) {
      return before.at + Rate::bits_per_second(bps).time_for(before.bytes);
    };
    const Time free =
        before.at + gbps(line).time_for(before.bytes + (frames.rate_counts_gap ? 0 : frames.gap));
    Time due = ends(before.bps);
    bool same_instant = false;
    for (; rate != record.rates.end() && rate->first <= at; ++rate) {
      if (!p.rate_changes_gap || rate->first < before.at) continue;
      same_instant = same_instant || rate->first == at || rate->first == before.at;
      if (rate->first < std::max(due, free)) due = std::max(ends(rate->second), rate->first);
    }
    if (same_instant) continue;  // which of them came first is not recorded
    EXPECT_LE((at - std::max(free, due)).ps(), 1) << "packet " << i;
    EXPECT_GE((at - std::max(free, due)).ps(), 0) << "packet " << i;
  }
  return record;
}

TEST(DcqcnLaw, PresetsInANetwork) {
  for (const ControlPreset& set : control_presets()) {
    if (set.controller != "dcqcn") continue;
    Record sum;
    for (uint64_t seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE(std::string(set.name) + ", seed " + std::to_string(seed));
      std::mt19937_64 random(seed);
      const Record one = run_one(std::get<DcqcnParameters>(set.parameters), random);
      sum.cnps += one.cnps;
      sum.timers += one.timers;
      sum.cuts += one.cuts;
      sum.raises += one.raises;
    }
    EXPECT_GT(sum.cnps, 40u) << set.name;
    EXPECT_GT(sum.timers, 20u) << set.name;
    EXPECT_GT(sum.cuts, 20u) << set.name;
    EXPECT_GT(sum.raises, 20u) << set.name;
  }
}

TEST(DcqcnLaw, AnyKnobsInANetwork) {
  for (uint64_t seed = 1; seed <= 30 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto coin = [&] { return random() % 2 == 0; };
    const auto us = [&](uint64_t most) {
      return Duration::us(static_cast<int64_t>(1 + random() % most));
    };
    DcqcnParameters p;
    p.g = 1.0 / static_cast<double>(2 + random() % 300);
    p.initial_alpha = static_cast<double>(random() % 1025) / 1024;
    p.alpha_update =
        coin() ? DcqcnParameters::AlphaUpdate::kPeriod : DcqcnParameters::AlphaUpdate::kCnp;
    p.alpha_period = us(60);
    p.decrease_period = coin() ? Duration() : us(60);
    p.clamp_target_rate = coin();
    p.clamp_target_rate_after_time_inc = coin();
    p.increase_period = us(100);
    p.byte_counter = coin() ? 0 : 1000 + random() % 100'000;
    p.fast_recovery = static_cast<uint32_t>(random() % 6);
    p.min_rate = Rate::bits_per_second(100'000'000 * (1 + random() % 20));
    p.rate_changes_gap = coin();
    p.echo = coin() ? DcqcnParameters::Echo::kCnp : DcqcnParameters::Echo::kAck;
    p.cnp_interval = us(50);
    run_one(p, random);
  }
}

}  // namespace
}  // namespace understudy
