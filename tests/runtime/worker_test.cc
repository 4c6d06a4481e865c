// The packet thread's loop, with a toy port and a toy shard, on the test's own thread.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <vector>

#include "dataplane/runtime/worker.h"

namespace understudy {
namespace {

/// What clocks say in this program while `set`: time of this machine's does not matter then.
struct FakeClocks {
  bool set = false;
  int64_t monotonic_ns = 0, calendar_ns = 0;
  int64_t ns_a_read = 0;           ///< monotonic time goes on by that
  int64_t calendar_ns_a_read = 0;  ///< steps of the calendar
} fake;

}  // namespace
}  // namespace understudy

extern "C" int clock_gettime(clockid_t clock, timespec* t) noexcept {
  using understudy::fake;
  if (!fake.set) return static_cast<int>(syscall(SYS_clock_gettime, clock, t));
  constexpr int64_t kNsPerSecond = 1'000'000'000;
  fake.monotonic_ns += fake.ns_a_read;
  fake.calendar_ns += fake.calendar_ns_a_read;
  const int64_t ns = clock == CLOCK_REALTIME ? fake.calendar_ns : fake.monotonic_ns;
  t->tv_sec = ns / kNsPerSecond;
  t->tv_nsec = ns % kNsPerSecond;
  return 0;
}

namespace understudy {
namespace {

class ToyPort : public Port, private TxSink {
 public:
  const std::string& name() const override { return name_; }
  uint32_t mtu() const override { return 1500; }
  std::span<const std::span<const uint8_t>> rx() override {
    ++polls;
    views_.clear();
    if (polls == 3) {
      for (const auto& frame : incoming) views_.emplace_back(frame);
    }
    return views_;
  }
  TxSink& tx() override { return *this; }
  void flush(Time now) override {
    for (size_t i = flushed; i < sent.size(); ++i) flush_times.push_back(now);
    flushed = sent.size();
  }
  PortCounters counters() const override { return {}; }

  std::vector<std::vector<uint8_t>> incoming, sent;
  std::vector<Time> flush_times;
  size_t flushed = 0;
  int polls = 0;

 private:
  uint8_t* reserve(uint32_t bytes) override {
    sent.emplace_back(bytes);
    return sent.back().data();
  }
  void commit(uint32_t bytes, Time) override { sent.back().resize(bytes); }
  std::string name_ = "toy";
  std::vector<std::span<const uint8_t>> views_;
};

/// Answers each burst with one frame and asks for the end after `turns` polls.
class ToyShard : public EngineShard {
 public:
  void rx(const RxBurst& burst) override {
    bursts.push_back({burst.at, burst.uncertainty, {}});
    frames += burst.frames.size();
    answer = true;
  }
  void poll(Time now, std::span<TxSink* const> sinks) override {
    TxSink& sink = *sinks.front();
    EXPECT_GE(now, last);  // the clock never goes back, nor does poll() see less than rx() did
    EXPECT_GE(now, bursts.empty() ? Time::zero() : bursts.back().at);
    last = now;
    if (answer) {
      *sink.reserve(1) = 7;
      sink.commit(1, now);
      answer = false;
    }
    if (++polls == stall_at) {
      const timespec t{0, 5'000'000};
      nanosleep(&t, nullptr);
    }
    if (polls == turns) worker->request_stop();
  }
  Time next_wake() const override { return wake; }

  Worker* worker = nullptr;
  std::vector<RxBurst> bursts;
  size_t frames = 0;
  int polls = 0, turns = 10, stall_at = -1;
  bool answer = false;
  Time last, wake = Time::never();
};

class CountTap : public CaptureTap {
 public:
  void frame(CaptureDirection direction, Time at, Time scheduled,
             std::span<const uint8_t> bytes) override {
    EXPECT_EQ(direction, CaptureDirection::kIn);
    EXPECT_TRUE(scheduled.is_never());
    times.push_back(at);
    total += bytes.size();
  }
  std::vector<Time> times;
  size_t total = 0;
};

struct Toy {
  Clock clock;
  ToyPort port;
  ToyShard shard;
  Worker worker;
  explicit Toy(const WorkerConfig& config) : worker(clock, config, {{{&port}, &shard}}) {
    shard.worker = &worker;
  }
};

TEST(Worker, FramesReachTheShardAndAnswersTheDevice) {
  Toy toy({});
  toy.port.incoming = {{1, 2, 3}, {4, 5}};
  CountTap tap;
  toy.port.set_capture(&tap);
  toy.worker.run();
  ASSERT_EQ(toy.shard.bursts.size(), 1U);
  EXPECT_EQ(toy.shard.frames, 2U);
  EXPECT_GT(toy.shard.bursts[0].uncertainty, Duration());
  EXPECT_LE(toy.shard.bursts[0].uncertainty, toy.shard.bursts[0].at - Time::zero());
  EXPECT_EQ(tap.times, (std::vector<Time>(2, toy.shard.bursts[0].at)));
  EXPECT_EQ(tap.total, 5U);
  ASSERT_EQ(toy.port.sent, (std::vector<std::vector<uint8_t>>{{7}}));
  ASSERT_EQ(toy.port.flush_times.size(), 1U);
  EXPECT_GE(toy.port.flush_times[0], toy.shard.bursts[0].at);
  EXPECT_EQ(toy.worker.stats().loops, 10U);
  EXPECT_EQ(toy.worker.stats().bursts, 1U);
  EXPECT_EQ(toy.worker.stats().naps, 0U);
}

/// Whose frames another thread took before the packet thread's last turn.
class EarlySource : public BurstSource {
 public:
  bool next(RxBurst& burst) override {
    if (++asked != 3) return false;
    burst.at = Time::zero() + Duration::ns(5);
    burst.uncertainty = Duration::ns(2);
    burst.frames = {&frame, 1};
    return true;
  }
  std::span<const uint8_t> frame;
  int asked = 0;
};
class SourcePort : public ToyPort {
 public:
  BurstSource* source() override { return &early; }
  EarlySource early;
};

TEST(Worker, WhatAnotherThreadReceivedComesNoEarlierThanTheShardIs) {
  Clock clock;
  const timespec t{0, 1'000'000};
  nanosleep(&t, nullptr);
  SourcePort port;
  ToyShard shard;
  Worker worker(clock, {}, {{{&port}, &shard}});
  shard.worker = &worker;
  worker.run();
  ASSERT_EQ(shard.bursts.size(), 1U);
  EXPECT_EQ(shard.frames, 1U);
  EXPECT_EQ(port.polls, 0);
  const RxBurst& burst = shard.bursts[0];
  EXPECT_GE(burst.at, Time::zero() + Duration::ms(1)) << "the shard's turns began then";
  EXPECT_EQ(burst.at - burst.uncertainty, Time::zero() + Duration::ns(3))
      << "it may have come then";
  EXPECT_EQ(worker.stats().bursts, 1U);
}

TEST(Worker, AGapIsWrittenDown) {
  Toy toy({});
  toy.shard.stall_at = 4;
  toy.worker.run();
  const WorkerStats& stats = toy.worker.stats();
  EXPECT_GE(stats.longest.length, Duration::ms(5));
  EXPECT_GE(stats.gaps, 1U);
  bool listed = false;
  for (const PollGap& gap : stats.gap_list()) {
    listed = listed || (gap.length == stats.longest.length && gap.from == stats.longest.from);
  }
  EXPECT_TRUE(listed);
}

TEST(Worker, NapsOnlyWhereTheSettingSaysSoAndNothingIsNear) {
  Toy sleepy({IdlePolicy::kSleep, Duration::ms(1)});
  sleepy.worker.run();
  EXPECT_GT(sleepy.worker.stats().naps, 0U);

  Toy urgent({IdlePolicy::kSleep, Duration::ms(1)});
  urgent.shard.wake = Time::zero();  // overdue: the device took no more
  urgent.worker.run();
  EXPECT_EQ(urgent.worker.stats().naps, 0U);

  Toy spinning({IdlePolicy::kSpin, Duration::ms(1)});
  spinning.worker.run();
  EXPECT_EQ(spinning.worker.stats().naps, 0U);
}

constexpr int64_t kMsInNs = 1'000'000;

/// From construction to the end of a test.
struct WithFakeClocks {
  explicit WithFakeClocks(const FakeClocks& clocks) {
    fake = clocks;
    fake.set = true;
  }
  ~WithFakeClocks() { fake = {}; }
};

TEST(Clock, StepsOfTheCalendarChangeNoTimeOfARun) {
  constexpr int64_t kHour = 3'600'000 * kMsInNs, kBegin = 500'000 * kHour;
  for (const int64_t step : {kHour, -kHour, kMsInNs, -kMsInNs}) {
    const WithFakeClocks clocks({true, 7 * kMsInNs, kBegin, 1000, step});
    const Clock clock;
    const CaptureEpoch epoch = clock.epoch();
    Time last = clock.now();
    for (int i = 0; i < 100; ++i) {
      fake.calendar_ns += step;
      const Time now = clock.now();
      EXPECT_EQ(now - last, Duration::us(1));
      last = now;
    }
    EXPECT_EQ(clock.epoch().seconds, epoch.seconds);
    EXPECT_EQ(clock.epoch().ps, epoch.ps);
  }
}

TEST(Worker, StepsOfTheCalendarAreNoGaps) {
  const WithFakeClocks clocks({true, 0, int64_t{1} << 60, 1000, -3'600'000 * kMsInNs});
  ToyPort port;
  ToyShard shard;
  shard.turns = 1000;
  const Clock clock;
  Worker worker(clock, {IdlePolicy::kSpin, Duration::ms(1)}, {{{&port}, &shard}});
  shard.worker = &worker;
  worker.run();
  EXPECT_EQ(worker.stats().gaps, 0u);
  EXPECT_LT(worker.stats().longest.length, Duration::ms(1));
}

/// A control group that may use 80 ms of each 100 (cpu.max), or a hypervisor that gives no more.
class ThrottledShard : public ToyShard {
 public:
  void poll(Time now, std::span<TxSink* const> sinks) override {
    if (fake.monotonic_ns >= next_stop_ns) {
      fake.monotonic_ns += 20 * kMsInNs;
      next_stop_ns += 100 * kMsInNs;
      if (++stops > kStops) worker->request_stop();  // the last one is no gap between polls
    }
    ToyShard::poll(now, sinks);
  }
  static constexpr int kStops = 10;
  int64_t next_stop_ns = 80 * kMsInNs;
  int stops = 0;
};

TEST(Worker, AThrottledCoreIsWrittenDownPeriodByPeriod) {
  const WithFakeClocks clocks({true, 0, 0, 10'000, 0});
  ToyPort port;
  ThrottledShard shard;
  shard.turns = -1;
  const Clock clock;
  Worker worker(clock, {IdlePolicy::kSpin, Duration::ms(1)}, {{{&port}, &shard}});
  shard.worker = &worker;
  worker.run();
  const auto gaps = worker.stats().gap_list();
  ASSERT_EQ(gaps.size(), size_t{ThrottledShard::kStops});
  EXPECT_EQ(worker.stats().gaps, size_t{ThrottledShard::kStops});
  for (size_t i = 0; i < gaps.size(); ++i) {
    EXPECT_GE(gaps[i].length, Duration::ms(20));
    EXPECT_LT(gaps[i].length, Duration::ms(21));
    if (i != 0) EXPECT_LT(gaps[i].from - gaps[i - 1].from - Duration::ms(100), Duration::ms(1));
  }
}

TEST(WorkerStats, KeepsTheLongestGaps) {
  WorkerStats stats;
  for (int64_t i = 0; i < 100; ++i) {
    stats.note_gap({Time::zero() + Duration::ms(i), Duration::us(i == 3 ? 50'000 : 1000 + i)});
  }
  EXPECT_EQ(stats.gaps, 100U);
  const auto list = stats.gap_list();
  ASSERT_EQ(list.size(), WorkerStats::kMaxGaps);
  EXPECT_EQ(list[0].from, Time::zero() + Duration::ms(3));  // by time; 0..2 and 4..36 fell out
  EXPECT_EQ(list[0].length, Duration::ms(50));
  EXPECT_EQ(list[1].from, Time::zero() + Duration::ms(37));
}

}  // namespace
}  // namespace understudy
