// Senders keep their rates. Of a sender alone the time between any two of its packets is that of
// its rate, rounded down to a picosecond for each packet: 0.0012 % at 400 Gbit/s. Beside others of
// its NIC it is late by what it waits for them and makes up for it. So over any 10 ms its bytes are
// those of its rate within 0.1 %, but for the packets at both ends of them, which are whole.
#include <algorithm>
#include <random>

#include "tests/rigs/network_rig.h"

namespace understudy {
namespace {

constexpr uint64_t kPayload = 4096, kWire = kPayload + 62 + 20;
using Starts = std::vector<Time>;

struct FixedRate final : Controller {
  FixedRate(Rate line, Rate rate, Starts& kept) : Controller(line), starts(kept) { rate_ = rate; }
  void on_sent(Time now, uint64_t) override { starts.push_back(now); }
  Starts& starts;
};

/// Senders at these rates on one NIC, for so long: when their packets start.
std::vector<Starts> run_senders(Rate line, const std::vector<Rate>& rates, Duration length) {
  const Graph g = star(2, line, Duration::us(1));
  std::vector<Starts> starts(rates.size());
  std::vector<FlowSpec> flows;
  for (uint32_t i = 0; i < rates.size(); ++i) {
    flows.push_back(flow_of(g, {"h0", "s", "h1"}, uint64_t{1} << 40, Duration::ns(7 * i)));
    flows.back().control = i;
  }
  NetworkSettings settings;
  settings.classes = {ClassSettings()};
  FlowSettings frames;
  frames.ack_every = 1000;
  frames.timeout = Duration();
  FlowRun run(g, flows, settings, frames, [&](const FlowSpec& flow, Rate rate, Duration) {
    FlowControl control;
    control.controller =
        std::make_unique<FixedRate>(rate, rates[flow.control], starts[flow.control]);
    return control;
  });
  run.run(Time::zero() + length);
  return starts;
}

/// Over any 10 ms that begin with a packet, or end before one.
void expect_kept_over_10_ms(const Starts& starts, Rate rate, Time end) {
  const Duration span = Duration::ms(10);
  const double bytes = static_cast<double>(rate.bps()) / 8 * span.seconds();
  size_t last = 0;
  for (size_t first = 0; first < starts.size() && starts[first] + span <= end; ++first) {
    while (last < starts.size() && starts[last] < starts[first] + span) ++last;
    const auto sent = static_cast<double>((last - first) * kWire);
    ASSERT_LE(sent, bytes * 1.001 + kWire) << rate.bps() << " bit/s from " << starts[first].ps();
    ASSERT_GE(sent, bytes * 0.999 - kWire) << rate.bps() << " bit/s from " << starts[first].ps();
  }
}

TEST(Pacing, AnyRateFrom1MbitTo400Gbit) {
  std::vector<uint64_t> rates = {1'000'000,      1'000'003,       33'333'333,      9'999'999'967,
                                 99'999'999'977, 100'000'000'000, 399'999'999'937, 400'000'000'000};
  std::mt19937_64 random(1);
  for (int i = 0; i < 40; ++i) {  // as many of each order of magnitude
    rates.push_back((1'000'000 + random() % 9'000'000) * (i % 4 == 0   ? 1
                                                          : i % 4 == 1 ? 10
                                                          : i % 4 == 2 ? 100
                                                                       : 1000));
  }
  for (const uint64_t bps : rates) {
    const Rate rate = Rate::bits_per_second(bps);
    const Duration gap = rate.time_for(kWire);
    const Duration length = std::max(Duration::ms(11), gap * 20);
    const Starts starts = run_senders(Rate::bits_per_second(400'000'000'000), {rate}, length)[0];
    ASSERT_GE(starts.size(), 20u);
    for (size_t i = 1; i < starts.size(); ++i) {
      ASSERT_GE(starts[i] - starts[i - 1], gap) << bps;
      ASSERT_LE(starts[i] - starts[i - 1], gap + Duration::ps(1)) << bps;
    }
    expect_kept_over_10_ms(starts, rate, Time::zero() + length);
  }
}

// The shares of the line are odd, so that the senders meet in every phase.
TEST(Pacing, RatesAreKeptBesideOthersOfTheNic) {
  constexpr uint64_t kLine = 100'000'000'000;
  for (const uint64_t senders : {2u, 9u, 40u}) {
    for (const uint64_t percent : {50u, 80u, 90u}) {
      std::mt19937_64 random(senders * percent);
      std::vector<uint64_t> weights;
      uint64_t sum = 0;
      for (uint64_t i = 0; i < senders; ++i) {
        weights.push_back(200 + random() % 1000);
        sum += weights.back();
      }
      std::vector<Rate> rates;
      for (const uint64_t w : weights) {
        rates.push_back(Rate::bits_per_second(kLine / 100 * percent / sum * w));
      }
      const Duration length = Duration::ms(14);
      const auto starts = run_senders(Rate::bits_per_second(kLine), rates, length);
      for (size_t i = 0; i < senders; ++i) {
        SCOPED_TRACE(std::to_string(senders) + " senders, " + std::to_string(percent) + " %");
        expect_kept_over_10_ms(starts[i], rates[i], Time::zero() + length);
      }
    }
  }
}

TEST(Pacing, WhoHadNothingToSendGainsNothing) {
  Starts starts;
  FixedRate law(Rate::bits_per_second(100'000'000'000), Rate::bits_per_second(8'000'000'000),
                starts);
  Pacing pacing;
  const Pacing::Rules rules;
  const auto at = [](int64_t us) { return Time::zero() + Duration::us(us); };
  pacing.begin(at(0));
  pacing.ready(at(0));
  pacing.started(at(0), 1000, law, rules);
  EXPECT_EQ(pacing.next(), at(1));
  pacing.ready(at(50));  // only now there is something
  pacing.started(at(50), 1000, law, rules);
  EXPECT_EQ(pacing.next(), at(51));
  pacing.ready(at(51));
  pacing.started(at(54), 1000, law, rules);  // others were before it
  EXPECT_EQ(pacing.next(), at(52));
  pacing.ready(at(54));
  pacing.started(at(54), 1000, law, rules);
  EXPECT_EQ(pacing.next(), at(53));
  pacing.ready(at(54));
  pacing.started(at(100), 1000, law, rules);  // too long
  EXPECT_EQ(pacing.next(), at(91));
  pacing.ready(at(100));
  pacing.started(at(100), 1000, law, {Duration(), Duration()});
  EXPECT_EQ(pacing.next(), at(101));
}

}  // namespace
}  // namespace understudy
