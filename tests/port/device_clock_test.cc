// A card's clock, from readings of it.
#include "dataplane/port/device_clock.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

Time at(Duration d) { return Time::zero() + d; }

TEST(DeviceClock, TwoReadingsGiveItsRate) {
  DeviceClock clock;
  EXPECT_TRUE(clock.wants_reading(at(Duration())));
  clock.reading(at(Duration::ms(5)), 1'000);
  EXPECT_FALSE(clock.known());
  EXPECT_FALSE(clock.wants_reading(at(Duration::ms(24))));
  clock.reading(at(Duration::ms(24)), 77);  // too close to tell anything
  EXPECT_FALSE(clock.known());
  EXPECT_TRUE(clock.wants_reading(at(Duration::ms(25))));
  clock.reading(at(Duration::ms(25)), 1'000 + 20'000'000);  // a tick a nanosecond
  ASSERT_TRUE(clock.known());
  EXPECT_EQ(clock.at(at(Duration::ms(25))), 20'001'000u);
  EXPECT_EQ(clock.at(at(Duration::ms(25) + Duration::us(3))), 20'004'000u);
  EXPECT_EQ(clock.at(at(Duration::ms(25) + Duration::ps(999))), 20'001'000u);
  EXPECT_EQ(clock.at(at(Duration::ms(25) - Duration::ps(1))), 20'000'999u);
}

// 156.25 MHz, as a ConnectX counts, 50 ppm fast: no jump between readings, and a second later right
// to a tick.
TEST(DeviceClock, KeepsUpWithAnyFrequency) {
  DeviceClock clock;
  const auto ticks = [](Time t) {
    return (uint64_t{1} << 40) + static_cast<uint64_t>(static_cast<unsigned __int128>(t.ps()) *
                                                       156'257'812 / 1'000'000'000'000);
  };
  for (int i = 0; i < 500; ++i) {
    const Time now = at(Duration::ms(20) * i);
    clock.reading(now, ticks(now));
    if (!clock.known()) continue;
    const Time later = now + Duration::ms(15);
    EXPECT_NEAR(static_cast<double>(clock.at(later)), static_cast<double>(ticks(later)), 2);
  }
}

}  // namespace
}  // namespace understudy
