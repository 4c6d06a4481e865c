// DCQCN against a straight recomputation in which every clock ticks, and its landmarks by hand.
#include "dataplane/cc/dcqcn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "dataplane/cc/make_controller.h"
#include "dataplane/cc/pacing.h"
#include "tests/cc/acks.h"
#include "tests/cc/dcqcn_ticking.h"

namespace understudy {
namespace {

using Echo = DcqcnParameters::Echo;
using AlphaUpdate = DcqcnParameters::AlphaUpdate;

DcqcnParameters preset(std::string_view name) {
  return std::get<DcqcnParameters>(*find_control_preset("dcqcn", name));
}

SenderPath path(Rate line) { return {line, Duration::us(8), 1024}; }

/// Calls the timers as a host does: at their time, in order.
void run_timers(Controller& controller, Time until) {
  while (controller.deadline() <= until) {
    const Time due = controller.deadline();
    controller.on_timer(due);
    ASSERT_GT(controller.deadline(), due);
  }
}

/// `limited` counts the events after which the rate was below the line's.
void compare_on_random_events(const DcqcnParameters& p, Rate line, uint64_t seed, int& limited) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Dcqcn law(p, path(line));
  Ticking ticking{p, static_cast<int64_t>(line.bps())};
  Time now;
  for (int i = 0; i < 2000; ++i) {
    // On the clocks' own grid now and then, to meet what is due at the same instant.
    const uint64_t draw = random();
    const Duration step = draw % 4 == 0 ? Duration::us(static_cast<int64_t>(draw / 4 % 60))
                          : draw % 4 == 1
                              ? Duration::us(static_cast<int64_t>(draw / 4 % 950))
                              : Duration::ps(static_cast<int64_t>(draw / 4 % 30'000'000));
    now += step;
    run_timers(law, now);
    switch (random() % 8) {
      case 0:
        law.on_cnp(now);
        ticking.cnp(now.ps());
        break;
      case 1: {
        AckHeard ack;
        ack.at = now;
        ack.marked = random() % 2 == 0;
        law.on_ack(ack);
        if (ack.marked && p.echo == Echo::kAck) {
          ticking.cnp(now.ps());
        }
        break;
      }
      default: {
        const uint64_t bytes = random() % 100'000;
        law.on_sent(now, bytes);
        ticking.sent(now.ps(), static_cast<int64_t>(bytes));
      }
    }
    ticking.run_until(now.ps());
    ASSERT_EQ(law.rate().bps(), static_cast<uint64_t>(ticking.rate)) << "event " << i;
    ASSERT_EQ(law.target().bps(), static_cast<uint64_t>(ticking.target)) << "event " << i;
    ASSERT_GE(law.rate().bps(), std::min(p.min_rate, line).bps());
    ASSERT_LE(law.rate(), line);
    limited += law.rate() < line;
  }
}

// rules: A6.6
TEST(Dcqcn, PresetsFollowTheirDifferenceEquations) {
  for (const ControlPreset& set : control_presets()) {
    if (set.controller != "dcqcn") continue;
    SCOPED_TRACE(set.name);
    int limited = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      compare_on_random_events(std::get<DcqcnParameters>(set.parameters), gbps(25), seed, limited);
    }
    EXPECT_GT(limited, 10'000);  // of 20,000
  }
}

TEST(Dcqcn, AnyKnobsFollowTheirDifferenceEquations) {
  std::mt19937_64 random(4);
  const auto coin = [&] { return random() % 2 == 0; };
  const auto us = [&](int64_t most) {
    return Duration::us(1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most)));
  };
  int limited = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    DcqcnParameters p;
    p.g = 1.0 / static_cast<double>(2 + random() % 300);
    p.initial_alpha = static_cast<double>(random() % 1025) / 1024;
    p.alpha_update = coin() ? AlphaUpdate::kPeriod : AlphaUpdate::kCnp;
    p.alpha_period = us(60);
    p.decrease_period = coin() ? Duration() : us(60);
    p.min_dec_fac = static_cast<double>(random() % 101) / 100;
    p.clamp_target_rate = coin();
    p.clamp_target_rate_after_time_inc = coin();
    if (coin()) p.rate_to_set_on_first_cnp = mbps(1 + random() % 30'000);
    p.increase_period = us(1000);
    p.byte_counter = coin() ? 0 : 1000 + random() % 100'000;
    p.fast_recovery = static_cast<uint32_t>(random() % 6);
    p.additive_increase = mbps(1 + random() % 100);
    p.hyper_increase = mbps(1 + random() % 1000);
    p.min_rate = mbps(1 + random() % 200);
    p.echo = coin() ? Echo::kCnp : Echo::kAck;
    compare_on_random_events(p, random() % 20 == 0 ? mbps(50) : gbps(10), seed, limited);
    if (HasFailure()) return;
  }
  EXPECT_GT(limited, 300'000);  // of 600,000
}

TEST(Dcqcn, FirstCnpOfTheSimulatorsLaw) {
  Dcqcn law(preset("hpcc-simulator"), path(gbps(25)));
  EXPECT_EQ(law.rate(), gbps(25));
  EXPECT_TRUE(law.deadline().is_never());
  AckHeard ack;
  ack.at = at_us(10);
  law.on_ack(ack);
  EXPECT_TRUE(law.deadline().is_never());
  ack.marked = true;
  law.on_ack(ack);
  EXPECT_EQ(law.rate(), gbps(25));  // unchanged until the period ends
  ASSERT_EQ(law.deadline(), at_us(14));
  law.on_timer(at_us(14));
  // Four quiet alpha periods: alpha = (255/256)^4, and it is updated before the cut.
  const double alpha = 255. / 256 * 255 / 256 * 255 / 256 * 255 / 256;
  EXPECT_EQ(law.rate().bps(), static_cast<uint64_t>(25e9 * (1 - alpha / 2)));
  EXPECT_EQ(law.target(), gbps(25));  // nothing had raised the rate
  // Fast recovery once, then additive increase.
  ASSERT_EQ(law.deadline(), at_us(914));
  const uint64_t low = law.rate().bps();
  law.on_timer(at_us(914));
  EXPECT_EQ(law.rate().bps(), (low + 25'000'000'000 + 1) / 2);
  // A second cut: the target is now the rate before it.
  const Rate before = law.rate();
  law.on_cnp(at_us(915));
  ASSERT_EQ(law.deadline(), at_us(918));  // on the grid of the first CNP
  law.on_timer(at_us(918));
  EXPECT_EQ(law.target(), before);
}

/// The sender's rate in an ns-3 run of that law (inet-tub/ns3-datacenter, ten flows of 25 Gbit/s
/// into one link, the paper's timers): each of its steps in whole Mbit/s until the second
/// congestion.
TEST(Dcqcn, StepsOfTheSimulatorInAnIncast) {
  const std::vector<uint64_t> simulator = {25'000, 12'500, 6'250, 3'125,  1'562,  781,
                                           390,    195,    100,   12'550, 18'775, 21'887};
  Dcqcn law(preset("timers-of-paper"), path(gbps(25)));
  std::vector<uint64_t> steps = {25'000};
  AckHeard ack;
  ack.marked = true;
  for (int64_t us = 10; steps.size() < simulator.size() && us < 2000; ++us) {
    run_timers(law, at_us(us));
    ack.at = at_us(us);
    if (us < 980 && us % 3 == 0) law.on_ack(ack);
    const uint64_t now = law.rate().bps() / 1'000'000;
    if (now != steps.back()) steps.push_back(now);
  }
  EXPECT_EQ(steps, simulator);
}

TEST(Dcqcn, PaperHalvesAtTheFirstCnpAndRecovers) {
  DcqcnParameters p = preset("paper");
  p.byte_counter = 0;
  Dcqcn law(p, path(gbps(40)));
  law.on_cnp(at_us(5));
  EXPECT_EQ(law.rate(), gbps(20));
  EXPECT_EQ(law.alpha(), 1.0);
  // Five rounds of fast recovery halve the distance; then the target rises by 40 Mbit/s, but is the
  // line rate already.
  uint64_t expected = 20'000'000'000;
  for (int i = 1; i <= 6; ++i) {
    ASSERT_EQ(law.deadline(), at_us(5 + 55 * i));
    law.on_timer(law.deadline());
    expected = (expected + 40'000'000'000) / 2;
    EXPECT_EQ(law.rate().bps(), expected);
  }
  // Back to back CNPs: each cuts at once, alpha having decayed six times in between.
  const double alpha = std::pow(255. / 256, 6);
  law.on_cnp(at_us(5 + 55 * 6));
  EXPECT_EQ(law.target().bps(), expected);
  EXPECT_NEAR(static_cast<double>(law.rate().bps()),
              static_cast<double>(expected) * (1 - alpha / 2), 2);
}

TEST(Dcqcn, BothClocksMustPassForHyperIncrease) {
  DcqcnParameters p = preset("paper");
  p.byte_counter = 1'000'000;
  p.fast_recovery = 2;
  p.decrease_period = Duration();
  Dcqcn law(p, path(gbps(100)));
  law.on_cnp(at_us(0));  // 50 Gbit/s, target 100
  law.on_cnp(at_us(1));  // target 50
  ASSERT_EQ(law.target(), gbps(50));
  law.on_sent(at_us(2), 2'000'000);  // two of fast recovery
  EXPECT_EQ(law.target(), gbps(50));
  law.on_sent(at_us(2), 1'000'000);
  EXPECT_EQ(law.target(), mbps(50'000 + 40));
  law.on_sent(at_us(3), 9'000'000);  // the timer has not moved: additive still
  EXPECT_EQ(law.target(), mbps(50'000 + 400));
  run_timers(law, at_us(1 + 55 * 3));  // stages 0, 1, 2: additive
  EXPECT_EQ(law.target(), mbps(50'000 + 400 + 120));
  run_timers(law, at_us(1 + 55 * 4));  // stage 3 of both clocks: hyper
  EXPECT_EQ(law.target(), mbps(50'000 + 400 + 120 + 400));
}

TEST(Dcqcn, LongQuietTimesNeedNoTimer) {
  const DcqcnParameters p = preset("hpcc-simulator");
  Dcqcn law(p, path(gbps(25)));
  law.on_cnp(at_us(0));
  int calls = 0;
  Time last;
  while (!law.deadline().is_never()) {
    last = law.deadline();
    law.on_timer(last);
    ASSERT_LT(++calls, 200);
  }
  EXPECT_EQ(law.rate(), gbps(25));
  // A minute later alpha is nearly nothing, and a cut hardly changes the rate.
  law.on_cnp(last + Duration::s(60));
  run_timers(law, last + Duration::s(61));
  EXPECT_LT(law.alpha(), 0.01);
  EXPECT_EQ(law.rate(), gbps(25));
}

TEST(Dcqcn, QuietPeriodsByAPowerEqualStepsWithinRounding) {
  DcqcnParameters p = preset("hpcc-simulator");
  p.increase_period = Duration::s(1);
  for (const int64_t quiet_us : {1020, 1028, 1500}) {
    Dcqcn law(p, path(gbps(25)));
    law.on_cnp(at_us(0));
    run_timers(law, at_us(100));
    law.on_cnp(at_us(quiet_us));
    run_timers(law, at_us(quiet_us + 4));
    Ticking ticking{p, 25'000'000'000};
    ticking.cnp(0);
    ticking.cnp(at_us(quiet_us).ps());
    ticking.run_until(at_us(quiet_us + 4).ps());
    EXPECT_NEAR(static_cast<double>(law.rate().bps()), static_cast<double>(ticking.rate), 1);
    EXPECT_NEAR(law.alpha(), ticking.alpha, 1e-12);
  }
}

TEST(Dcqcn, WindowFollowsTheRate) {
  DcqcnParameters p = preset("hpcc-simulator");
  p.window = {WindowRule::Kind::kBdp, 0, true};
  Dcqcn law(p, {gbps(25), Duration::ns(6620), 4096});
  EXPECT_EQ(law.window(), 20'687u);  // of 20,687.5
  law.on_cnp(at_us(0));
  run_timers(law, at_us(4));
  EXPECT_EQ(law.window(), 20'687 * law.rate().bps() / 25'000'000'000);
  p.window = {WindowRule::Kind::kBytes, 1, true};
  Dcqcn narrow(p, path(gbps(25)));
  narrow.on_cnp(at_us(0));
  run_timers(narrow, at_us(4));
  EXPECT_EQ(narrow.window(), 1u);  // never none
}

TEST(Dcqcn, UnlimitedLinesAreNotControlled) {
  const auto controller = make_controller(preset("nvidia"), path(Rate::unlimited()));
  controller->on_cnp(at_us(1));
  EXPECT_TRUE(controller->deadline().is_never());
  EXPECT_TRUE(controller->rate().is_unlimited());
  EXPECT_EQ(controller->window(), Controller::kNoWindow);
}

TEST(Dcqcn, PresetsAreFoundByName) {
  EXPECT_EQ(find_control_preset("dcqcn", ""), find_control_preset("dcqcn", "nvidia"));
  EXPECT_EQ(preset("timers-of-paper").increase_period, Duration::us(55));
  EXPECT_FALSE(find_control_preset("dcqcn", "papers"));
  EXPECT_FALSE(find_control_preset("cubic", ""));
  for (const ControlPreset& set : control_presets())
    EXPECT_EQ(controller_name(set.parameters), set.controller);
}

// A sender that was cut to its least rate goes on as soon as the rate is back, not after the gap of
// the packet that left at 1 Mbit/s.
TEST(Dcqcn, ARateThatComesBackShortensTheGap) {
  const Rate line = Rate::bits_per_second(100'000'000'000);
  for (const bool follows : {true, false}) {
    DcqcnParameters p;
    p.rate_to_set_on_first_cnp = Rate::bits_per_second(1'000'000);
    p.additive_increase = Rate::bits_per_second(1'000'000'000);
    p.rate_changes_gap = follows;
    const std::unique_ptr<Controller> control = make_controller(p, {line, Duration::us(4), 4000});
    Pacing pacing;
    pacing.begin(Time::zero());
    control->start(Time::zero());
    control->on_cnp(Time::zero());
    pacing.started(Time::zero(), 4000, *control, {});
    EXPECT_EQ(pacing.next(), Time::zero() + Duration::ms(32));
    while (control->deadline() < Time::zero() + Duration::ms(5)) {
      control->on_timer(control->deadline());
      pacing.changed(*control, {});
    }
    EXPECT_GT(control->rate(), Rate::bits_per_second(100'000'000));
    EXPECT_EQ(pacing.next(),
              Time::zero() + (follows ? control->rate().time_for(4000) : Duration::ms(32)));
  }
}

}  // namespace
}  // namespace understudy
