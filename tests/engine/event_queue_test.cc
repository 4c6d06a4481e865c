// The event queue gives events by their times, and by insertion where those are equal, whichever of
// them stand in lanes.
#include "dataplane/engine/state/event_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

namespace understudy {
namespace {

TEST(EventQueue, EmptyHasNothing) { EXPECT_TRUE(EventQueue(16).next().is_never()); }

TEST(EventQueue, EqualTimesKeepTheOrderOfInsertionAcrossLanesAndTheCalendar) {
  EventQueue queue(16);
  const Time at = Time::zero() + Duration::us(5);
  queue.push(at + Duration::us(1), EventKind::kDeliver, 100);  // others stand in another lane
  for (uint32_t i = 0; i < 40; ++i) {
    queue.push(at, i % 3 == 0 ? EventKind::kTimer : EventKind::kDeliver, i);
  }
  for (uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(queue.next(), at);
    EXPECT_EQ(queue.pop().index, i);
  }
  EXPECT_EQ(queue.pop().index, 100u);
  EXPECT_TRUE(queue.next().is_never());
}

/// Streams in the order of their times, more of them than there are lanes, deeper at times than a
/// lane, and timers: the same pushes into a queue and a sorted map.
TEST(EventQueue, AgreesWithASortedMap) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    EventQueue queue(64);
    std::map<std::pair<int64_t, uint64_t>, std::pair<EventKind, uint32_t>> expected;
    std::array<int64_t, 9> last{};
    uint64_t order = 0;
    int64_t now = 0;
    const size_t streams = 1 + seed % last.size();
    for (uint32_t n = 0; n < 20'000; ++n) {
      const bool fill = n / 1000 % 2 == 0;  // up to some hundreds, and down again
      if (expected.empty() || random() % 100 < (fill ? 80 : 22)) {
        int64_t at = now + static_cast<int64_t>(random() % 10'000'000);
        auto kind = EventKind::kTimer;
        if (const size_t stream = random() % (streams + 1); stream < streams) {
          kind = static_cast<EventKind>(random() % 3);
          const int64_t gap = seed % 2 == 0 ? 100 : 50'000;  // many equal times
          at = last[stream] =
              std::max(now, last[stream]) + static_cast<int64_t>(random() % 3) * gap;
        }
        queue.push(Time::from_ps(at), kind, n);
        expected[{at, order++}] = {kind, n};
      } else {
        ASSERT_EQ(queue.next().ps(), expected.begin()->first.first);
        const ShardEvent e = queue.pop();
        ASSERT_EQ(e.time.ps(), expected.begin()->first.first);
        ASSERT_EQ(e.index, expected.begin()->second.second) << "seed " << seed << ", event " << n;
        ASSERT_EQ(e.kind, expected.begin()->second.first);
        now = e.time.ps();
        expected.erase(expected.begin());
      }
    }
    while (!expected.empty()) {
      ASSERT_EQ(queue.pop().index, expected.begin()->second.second);
      expected.erase(expected.begin());
    }
    EXPECT_TRUE(queue.next().is_never());
  }
}

}  // namespace
}  // namespace understudy
