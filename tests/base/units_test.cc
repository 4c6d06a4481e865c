// Times and rates: no remainder is lost, and no product overflows where a run may go.
#include "dataplane/base/units.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

TEST(Rate, TimesOfKnownFrames) {
  EXPECT_EQ(Rate::bits_per_second(400'000'000'000).time_for(84), Duration::ps(1680));
  EXPECT_EQ(Rate::bits_per_second(100'000'000).time_for(1), Duration::ns(80));
  EXPECT_EQ(Rate::unlimited().time_for(1 << 30), Duration());
  // 2^40 bytes at 1 Gbit/s: 8796093022208 ns, far beyond what a 64-bit product holds.
  EXPECT_EQ(Rate::bits_per_second(1'000'000'000).time_for(uint64_t{1} << 40),
            Duration::ns(8'796'093'022'208));
}

TEST(Serializer, SumOfManyIsTheTimeOfTheSum) {
  // 3 Gbit/s: a byte takes 2666.6... ps.
  const Rate rate = Rate::bits_per_second(3'000'000'000);
  Serializer s(rate);
  Duration sum;
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 100'000; ++i) {
    const uint64_t size = 84 + i * 7919 % 4200;
    bytes += size;
    sum += s.next(size);
    ASSERT_EQ(sum, rate.time_for(bytes)) << "after packet " << i;
  }
}

TEST(Serializer, LargestStatedSizeDoesNotOverflow) {
  const Rate rate = Rate::bits_per_second(999'999'999'989);  // a prime: worst remainders
  Serializer s(rate);
  Duration sum;
  for (uint64_t i = 1; i <= 100; ++i) {
    sum += s.next(2'000'000);
    ASSERT_EQ(sum, rate.time_for(2'000'000 * i));
  }
}

TEST(Serializer, UnlimitedTakesNoTimeAndARateChangeForgetsTheRemainder) {
  Serializer s;
  EXPECT_EQ(s.next(9000), Duration());
  s.set_rate(Rate::bits_per_second(3'000'000'000));
  EXPECT_EQ(s.next(1), Duration::ps(2666));  // 2 thirds carried
  s.set_rate(Rate::bits_per_second(3'000'000'000));
  EXPECT_EQ(s.next(1), Duration::ps(2666));
  EXPECT_EQ(s.next(1), Duration::ps(2667));
}

TEST(Time, NeverIsLast) {
  EXPECT_TRUE(Time::never().is_never());
  EXPECT_LT(Time::from_ps(INT64_MAX - 1), Time::never());
  EXPECT_EQ(Time::from_ps(5) - Time::from_ps(7), Duration::ps(-2));
}

}  // namespace
}  // namespace understudy
