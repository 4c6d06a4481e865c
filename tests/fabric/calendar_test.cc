// The calendar gives events in the order of their times, and of insertion where those are equal; so
// it does with lanes in front.
#include "dataplane/fabric/calendar.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "dataplane/fabric/event_lanes.h"

namespace understudy {
namespace {

TEST(Calendar, EmptyHasNothing) {
  Calendar c;
  EXPECT_TRUE(c.empty());
  EXPECT_TRUE(c.next().is_never());
}

TEST(Calendar, PastTimesComeNext) {
  Calendar c;
  c.push(Time::zero() + Duration::ms(5), 1, 1);
  EXPECT_EQ(c.next(), Time::zero() + Duration::ms(5));
  c.push(Time::zero() + Duration::ms(4), 2, 2);
  EXPECT_EQ(c.pop().index, 2u);
  EXPECT_EQ(c.pop().index, 1u);
  EXPECT_TRUE(c.next().is_never());
}

/// The same pushes into a calendar and a sorted map; spans from picoseconds to beyond the wheel.
TEST(Calendar, AgreesWithASortedMap) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    Calendar c;
    std::map<std::pair<int64_t, uint64_t>, uint32_t> expected;
    uint64_t order = 0;
    int64_t now = 0;
    for (uint32_t n = 0; n < 20'000; ++n) {
      if (expected.empty() || random() % 100 < 52) {
        const int64_t spans[] = {1, 1 << 13, 1 << 20, 67'108'864, 100'000'000, 10'000'000'000};
        const int64_t span = spans[random() % std::size(spans)];
        const int64_t at = now + static_cast<int64_t>(random() % static_cast<uint64_t>(span));
        c.push(Time::from_ps(at), 0, n);
        expected[{at, order++}] = n;
      } else {
        ASSERT_EQ(c.next().ps(), expected.begin()->first.first);
        const CalendarEvent e = c.pop();
        ASSERT_EQ(e.index, expected.begin()->second) << "seed " << seed;
        ASSERT_GE(e.time.ps(), now);
        now = e.time.ps();
        expected.erase(expected.begin());
      }
      ASSERT_EQ(c.size(), expected.size());
    }
  }
}

/// Comparisons and moves of a million events at one moment would take hours if each moved the rest.
TEST(Calendar, AMillionEventsAtOneMomentComeInTheOrderOfTheirRanks) {
  constexpr uint32_t kEvents = 1 << 20, kStep = 7'919;  // prime to each other
  for (const Time at :
       {Time::zero(), Time::zero() + Duration::us(5), Time::zero() + Duration::ms(9)}) {
    Calendar c;
    for (uint32_t n = 0; n < kEvents; ++n) {
      const uint32_t rank = n * kStep % kEvents;
      c.push(at, 0, rank, rank);
    }
    for (uint32_t n = 0; n < kEvents; ++n) {
      // What is made meanwhile for the same moment has its place among the rest.
      if (n % 2 == 1) c.push(at, 1, n, n);
      ASSERT_EQ(c.pop().index, n);
      if (n % 2 == 1) {
        ASSERT_EQ(c.pop().kind, 1u);
      }
    }
    EXPECT_TRUE(c.empty());
  }
}

/// The same of streams that are in order but for some, among others, with ranks; more than lanes
/// hold, and equal times.
TEST(EventLanes, AgreeWithASortedMap) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    EventLanes lanes;
    std::map<std::tuple<int64_t, uint32_t, uint64_t>, uint32_t> expected;  // time, rank, order
    uint64_t order = 0, from_lanes = 0;
    int64_t now = 0;
    for (uint32_t n = 0; n < 40'000; ++n) {
      const bool fills = n % 8000 < 4000;
      if (expected.empty() || random() % 100 < (fills ? 80 : 20)) {
        constexpr int64_t kStreams[] = {4'000, 170'000, 170'000, 1'000'000, 20'000'000, 5'000'000};
        int64_t at = now + kStreams[random() % std::size(kStreams)];
        if (random() % 16 == 0) at += static_cast<int64_t>(random() % 100'000);
        uint32_t rank = 0;
        if (random() % 4 == 0) {
          rank = static_cast<uint32_t>(random() % 3);
          lanes.push(Time::from_ps(at), 1, n, rank);
        } else {
          lanes.push_in_order(Time::from_ps(at), 0, n);
        }
        expected[{at, rank, order++}] = n;
        continue;
      }
      const auto first = expected.begin();
      ASSERT_EQ(lanes.next().ps(), std::get<0>(first->first));
      bool from_lane;
      const CalendarEvent e = lanes.pop(from_lane);
      ASSERT_EQ(e.index, first->second) << "seed " << seed;
      from_lanes += from_lane ? 1 : 0;
      now = e.time.ps();
      expected.erase(first);
    }
    EXPECT_GT(from_lanes, 1000u);
  }
}

}  // namespace
}  // namespace understudy
