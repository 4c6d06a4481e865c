// What holds for every law whatever its sender hears: bounds, a window for one packet, the same
// answers to the same input, timers that move on.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/cc/acks.h"

namespace understudy {
namespace {

struct Answer {
  uint64_t bps, window;
  int64_t deadline_ps;
  bool operator==(const Answer&) const = default;
};

Rate least_rate(const ControlParameters& parameters) {
  return std::visit(
      [](const auto& p) {
        if constexpr (requires { p.min_rate; }) return p.min_rate;
        return Rate::bits_per_second(1);
      },
      parameters);
}

/// A sender that hears nonsense now and then: round trips of nothing and of seconds, counters that
/// stand still, hops that change, time that stands still.
std::vector<Answer> drive(const ControlParameters& parameters, const SenderPath& path,
                          uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto controller = make_controller(parameters, path);
  const Rate least = std::min(least_rate(parameters), path.line);
  std::vector<Answer> answers;
  std::vector<IntHop> hops;
  uint64_t sent = 0;
  uint64_t acked = 0;
  Time now;
  controller->start(now);
  for (int i = 0; i < 3000; ++i) {
    const int64_t scale = random() % 100 == 0 ? 20'000'000'000 : 3'000'000;
    now += Duration::ps(static_cast<int64_t>(random() % static_cast<uint64_t>(scale)));
    while (controller->deadline() <= now) {
      const Time due = controller->deadline();
      controller->on_timer(due);
      EXPECT_GT(controller->deadline(), due);
    }
    switch (random() % 4) {
      case 0: {
        const uint64_t bytes = random() % (4 * path.packet_bytes);
        sent += bytes;
        controller->on_sent(now, bytes);
        break;
      }
      case 1:
        if (random() % 8 == 0) controller->on_cnp(now);
        break;
      default: {
        if (random() % 50 == 0) hops.resize(random() % 40);
        for (IntHop& hop : hops) {
          hop.rate = random() % 100 == 0 ? Rate::unlimited() : path.line;
          hop.at = random() % 10 == 0 ? hop.at : now;
          hop.tx_bytes += random() % 100'000;
          hop.queue_bytes = random() % 2 == 0 ? 0 : random() % 1'000'000;
        }
        AckHeard ack;
        ack.at = now;
        ack.rtt = Duration::ps(static_cast<int64_t>(
            random() % (random() % 20 == 0 ? 2'000'000'000'000 : 100'000'000)));
        if (random() % 50 == 0) ack.rtt = Duration();
        ack.newly_acked = random() % 10 == 0 ? 0 : random() % (sent - acked + 1);
        acked += ack.newly_acked;
        ack.acked = acked;
        ack.sent = sent;
        ack.marked = random() % 3 == 0;
        ack.switches = static_cast<unsigned>(hops.size());
        ack.hops = hops;
        controller->on_ack(ack);
      }
    }
    EXPECT_GE(controller->rate(), least);
    EXPECT_LE(controller->rate(), path.line);
    EXPECT_GE(controller->window(), 1u);
    EXPECT_GT(controller->deadline(), now);
    answers.push_back(
        {controller->rate().bps(), controller->window(), controller->deadline().ps()});
    if (testing::Test::HasFailure()) break;
  }
  return answers;
}

TEST(Laws, BoundsAndDeterminism) {
  for (const ControlPreset& set : control_presets()) {
    for (const Rate line : {gbps(1), gbps(25), gbps(800)}) {
      for (const Duration rtt : {Duration(), Duration::us(8), Duration::ms(50)}) {
        SCOPED_TRACE(std::string(set.controller) + " " + std::string(set.name));
        const SenderPath path = {line, rtt, 1024};
        const auto first = drive(set.parameters, path, 7);
        EXPECT_EQ(first, drive(set.parameters, path, 7));
        if (HasFailure()) return;
        if (set.controller == "none") continue;
        // The law did something at all.
        EXPECT_NE(std::count(first.begin(), first.end(), first.front()), std::ssize(first));
      }
    }
  }
}

TEST(Laws, WindowsOfEveryKind) {
  for (ControlPreset set : control_presets()) {
    for (const WindowRule::Kind kind :
         {WindowRule::Kind::kNone, WindowRule::Kind::kBdp, WindowRule::Kind::kBytes}) {
      for (const bool variable : {false, true}) {
        const bool has_rule = std::visit(
            [&](auto& p) {
              if constexpr (requires { p.window; }) {
                p.window = {kind, 50'000, variable};
                return true;
              }
              return false;
            },
            set.parameters);
        if (!has_rule) continue;
        const SenderPath path = {gbps(25), Duration::us(8), 1024};
        uint64_t least = Controller::kNoWindow;
        for (const Answer& answer : drive(set.parameters, path, 3)) {
          least = std::min(least, answer.window);
        }
        const uint64_t whole = kind == WindowRule::Kind::kNone  ? Controller::kNoWindow
                               : kind == WindowRule::Kind::kBdp ? 25'000
                                                                : 50'000;
        if (variable && kind != WindowRule::Kind::kNone && set.controller != "none") {
          EXPECT_LT(least, whole) << set.controller;
        } else {
          EXPECT_EQ(least, whole) << set.controller;
        }
      }
    }
  }
}

TEST(Laws, NoneIsLineRate) {
  NoControlParameters p;
  auto controller = make_controller(p, {gbps(25), Duration::us(8), 1024});
  Acks acks;
  controller->on_ack(acks.next(1, true));
  controller->on_cnp(at_us(5));
  EXPECT_EQ(controller->rate(), gbps(25));
  EXPECT_EQ(controller->window(), Controller::kNoWindow);
  p.window = {WindowRule::Kind::kBdp, 0, false};
  controller = make_controller(p, {gbps(25), Duration::us(8), 1024});
  EXPECT_EQ(controller->window(), 25'000u);
}

}  // namespace
}  // namespace understudy
