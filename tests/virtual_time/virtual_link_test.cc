// The virtual-time link and loop, with toy shards.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "dataplane/virtual_time/virtual_link.h"
#include "dataplane/virtual_time/virtual_loop.h"

namespace understudy {
namespace {

using Bytes = std::vector<uint8_t>;

Time at_us(int64_t us) { return Time::zero() + Duration::us(us); }

/// Sends each frame that it gets back after `delay`, one byte shorter, until nothing is left.
class Bouncer : public EngineShard {
 public:
  explicit Bouncer(Duration delay) : delay_(delay) {}
  void serve(Bytes frame, Time due) { queue_.push_back({due, std::move(frame)}); }

  void rx(const RxBurst& burst) override {
    EXPECT_EQ(burst.uncertainty, Duration());
    bursts.push_back(burst.frames.size());
    for (const auto frame : burst.frames) {
      arrivals.push_back({burst.at, {frame.begin(), frame.end()}});
      if (frame.size() > 1) serve({frame.begin(), frame.end() - 1}, burst.at + delay_);
    }
  }
  void poll(Time now, std::span<TxSink* const> sinks) override {
    TxSink& sink = *sinks.front();
    while (!queue_.empty() && queue_.front().first <= now) {
      const auto& [due, frame] = queue_.front();
      const auto bytes = static_cast<uint32_t>(frame.size());
      uint8_t* out = sink.reserve(bytes + 8);  // more than needed: only what is committed counts
      std::copy(frame.begin(), frame.end(), out);
      sink.commit(bytes, due);
      queue_.erase(queue_.begin());
    }
    if (reserve_more) (void)sink.reserve(60);
  }
  Time next_wake() const override { return queue_.empty() ? Time::never() : queue_.front().first; }

  std::vector<std::pair<Time, Bytes>> arrivals;
  std::vector<size_t> bursts;
  bool reserve_more = false;  ///< and never commits

 private:
  Duration delay_;
  std::vector<std::pair<Time, Bytes>> queue_;
};

class ListTap : public CaptureTap {
 public:
  explicit ListTap(std::vector<std::tuple<std::string, int64_t, int64_t, size_t>>& list,
                   std::string name)
      : list_(list), name_(std::move(name)) {}
  void frame(CaptureDirection direction, Time at, Time scheduled,
             std::span<const uint8_t> bytes) override {
    list_.emplace_back(name_ + (direction == CaptureDirection::kIn ? " in" : " out"),
                       at.ps() / 1'000'000, scheduled.is_never() ? -1 : scheduled.ps() / 1'000'000,
                       bytes.size());
  }

 private:
  std::vector<std::tuple<std::string, int64_t, int64_t, size_t>>& list_;
  std::string name_;
};

struct Pair {
  VirtualLink link{"a", "b", 4200};
  Bouncer a{Duration::us(3)}, b{Duration::us(7)};
  ShardParticipant pa{link.a(), a}, pb{link.b(), b};
  VirtualLoop loop;
  Pair() {
    loop.add(pa);
    loop.add(pb);
  }
};

TEST(VirtualLink, FramesGoToAndFroAtExactTimes) {
  Pair t;
  t.a.reserve_more = true;  // a reservation without a commit sends nothing
  std::vector<std::tuple<std::string, int64_t, int64_t, size_t>> seen;
  ListTap tap_a(seen, "a");
  t.link.a().set_capture(&tap_a);
  t.a.serve({1, 2, 3, 4}, at_us(5));
  ASSERT_TRUE(t.loop.run());
  EXPECT_EQ(t.loop.now(), at_us(22));
  const std::vector<std::pair<Time, Bytes>> at_b = {{at_us(5), {1, 2, 3, 4}}, {at_us(15), {1, 2}}};
  const std::vector<std::pair<Time, Bytes>> at_a = {{at_us(12), {1, 2, 3}}, {at_us(22), {1}}};
  EXPECT_EQ(t.b.arrivals, at_b);
  EXPECT_EQ(t.a.arrivals, at_a);
  const decltype(seen) expected = {
      {"a out", 5, 5, 4}, {"a in", 12, -1, 3}, {"a out", 15, 15, 2}, {"a in", 22, -1, 1}};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(t.link.a().counters().tx_frames, 2U);
  EXPECT_EQ(t.link.a().counters().tx_bytes, 6U);
  EXPECT_EQ(t.link.a().counters().rx_frames, 2U);
  EXPECT_EQ(t.link.b().counters().rx_bytes, 6U);
}

TEST(VirtualLink, ManyFramesOfOneTimeComeInOrderInBurstsOf32) {
  Pair t;
  for (uint8_t i = 0; i < 70; ++i) t.a.serve({i}, at_us(1));
  t.a.serve({99}, at_us(2));
  ASSERT_TRUE(t.loop.run());
  EXPECT_EQ(t.b.bursts, (std::vector<size_t>{32, 32, 6, 1}));
  ASSERT_EQ(t.b.arrivals.size(), 71U);
  for (uint8_t i = 0; i < 70; ++i) {
    EXPECT_EQ(t.b.arrivals[i], (std::pair<Time, Bytes>(at_us(1), {i})));
  }
  EXPECT_EQ(t.b.arrivals[70], (std::pair<Time, Bytes>(at_us(2), {99})));
}

/// Writes its name down at fixed times.
class Ticker : public Participant {
 public:
  Ticker(std::string name, std::vector<int64_t> us, std::vector<std::string>& log)
      : name_(std::move(name)), us_(std::move(us)), log_(log) {}
  const std::string& name() const override { return name_; }
  Time next_event() const override { return us_.empty() ? Time::never() : at_us(us_.front()); }
  void advance_to(Time t) override {
    if (stuck) return;
    log_.push_back(name_ + std::to_string(t.ps() / 1'000'000));
    us_.erase(us_.begin());
  }
  bool stuck = false;

 private:
  std::string name_;
  std::vector<int64_t> us_;
  std::vector<std::string>& log_;
};

TEST(VirtualLoop, EarliestFirstThenInOrderOfAddition) {
  std::vector<std::string> log;
  Ticker x("x", {2, 5, 9}, log), y("y", {1, 5}, log), z("z", {5, 5, 3}, log);
  VirtualLoop loop;
  for (Ticker* ticker : {&x, &y, &z}) loop.add(*ticker);
  ASSERT_TRUE(loop.run(at_us(5)));
  // z's 3 us is in the past by then: it is due at once, and time does not go back.
  EXPECT_EQ(log, (std::vector<std::string>{"y1", "x2", "x5", "y5", "z5", "z5", "z5"}));
  EXPECT_EQ(loop.now(), at_us(5));
  ASSERT_TRUE(loop.run());
  EXPECT_EQ(log.back(), "x9");
  EXPECT_EQ(loop.now(), at_us(9));
}

TEST(VirtualLoop, SomebodyAlwaysDueIsAnError) {
  std::vector<std::string> log;
  Ticker x("sleeper", {4}, log);
  x.stuck = true;
  VirtualLoop loop;
  loop.add(x);
  const auto done = loop.run();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().text.find("stands still at 4000000 ps: \"sleeper\""), std::string::npos)
      << done.error().text;
}

}  // namespace
}  // namespace understudy
