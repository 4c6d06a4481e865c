// A wire's times in closed form.
#include "dataplane/fabric/wire.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

constexpr Rate kRate = Rate::bits_per_second(400'000'000'000);
constexpr uint32_t kBytes = 1000;  ///< 20 ns

Time at_ns(int64_t ns) { return Time::zero() + Duration::ns(ns); }

TEST(Wire, APacketComesOutAfterItsTimeAndTheLatency) {
  Wire wire(kRate, Duration::ns(500));
  EXPECT_TRUE(wire.idle(Time()));
  wire.send(at_ns(100), at_ns(100), wire.time_of_next(kBytes));
  EXPECT_EQ(wire.free_at(), at_ns(120));
  EXPECT_EQ(wire.exit().head, at_ns(600));
  EXPECT_EQ(wire.exit().tail, at_ns(620));
  EXPECT_FALSE(wire.idle(at_ns(119)));
  EXPECT_TRUE(wire.idle(at_ns(120)));
}

TEST(Wire, ATailLeavesNoEarlierThanItComesIn) {
  Wire wire(kRate, Duration::ns(500));
  wire.send(at_ns(100), at_ns(300), wire.time_of_next(kBytes));
  EXPECT_EQ(wire.exit().head, at_ns(600));
  EXPECT_EQ(wire.exit().tail, at_ns(800));
}

TEST(Wire, NobodyOvertakesWhenItBecomesShorter) {
  Wire wire(kRate, Duration::ns(500));
  wire.send(Time(), Time(), wire.time_of_next(kBytes));
  wire.set_latency(Duration::ns(10));
  wire.send(at_ns(20), at_ns(20), wire.time_of_next(kBytes));
  EXPECT_EQ(wire.exit().head, at_ns(500));
  EXPECT_EQ(wire.exit().tail, at_ns(520));
}

TEST(Wire, PartsOfAPicosecondAreCarried) {
  Wire wire(Rate::bits_per_second(3'000'000'000'000), Duration());  // a byte: 2 2/3 ps
  EXPECT_EQ(wire.most_for(1), Duration::ps(3));
  for (const int64_t ps : {2, 3, 3}) EXPECT_EQ(wire.time_of_next(1), Duration::ps(ps));
}

TEST(Wire, WhoIsAwaitedTakesNothing) {
  Wire wire(kRate, Duration());
  wire.await();
  EXPECT_FALSE(wire.idle(at_ns(1)));
  wire.release();
  EXPECT_TRUE(wire.idle(at_ns(1)));
}

TEST(Wire, KnowsTheTailOfWhatItSends) {
  Wire wire(kRate, Duration::ns(500));
  EXPECT_TRUE(wire.sent_tail(Time()).is_never());
  wire.send(Time(), Time(), wire.time_of_next(kBytes));
  EXPECT_EQ(wire.sent_tail(at_ns(19)), at_ns(520));
  EXPECT_TRUE(wire.sent_tail(at_ns(20)).is_never());
}

}  // namespace
}  // namespace understudy
