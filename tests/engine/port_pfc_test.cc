// What a port says and hears by PFC frames, without frames on their way: see engine_pfc_test.cc.
#include "dataplane/engine/state/port_pfc.h"

#include <gtest/gtest.h>

#include <vector>

namespace understudy {
namespace {

constexpr Rate kRate = Rate::bits_per_second(100'000'000'000);
const Duration kLongest = pfc_time(0xffff, kRate);

Time at(int64_t ns) { return Time::zero() + Duration::ns(ns); }

/// Class 0: priorities 0 and 1, lossy. Class 1: 2 and 3. Class 2: all others.
std::vector<ClassSettings> three_classes() {
  std::vector<ClassSettings> classes(3);
  classes[0].priorities = 0x03;
  classes[1].priorities = 0x0c;
  classes[2].priorities = 0xf0;
  classes[1].pfc = classes[2].pfc = PfcSettings{};
  return classes;
}

PortPfc port() { return PortPfc({true, kRate}, three_classes()); }

PfcFrame frame_of(uint8_t priorities, uint16_t quanta) {
  PfcFrame frame;
  frame.priorities = priorities;
  frame.quanta.fill(quanta);
  return frame;
}

// rules: A8.2
TEST(PortPfc, APauseIsSaidRepeatedAndEnded) {
  PortPfc pfc = port();
  EXPECT_TRUE(pfc.next_frame().is_never());
  pfc.tell(1, true, at(10));
  ASSERT_EQ(pfc.next_frame(), at(10));
  PfcFrame frame = pfc.take_frame(at(10));
  EXPECT_EQ(frame.priorities, 0x0c);
  EXPECT_EQ(frame.quanta[2], 0xffff);
  EXPECT_EQ(frame.quanta[3], 0xffff);
  // Before it runs out it is said again, and again.
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(pfc.next_frame(), at(10) + kLongest / 2 * i);
    frame = pfc.take_frame(pfc.next_frame());
    EXPECT_EQ(frame.priorities, 0x0c);
    EXPECT_EQ(frame.quanta[3], 0xffff);
  }
  const Time end = at(10) + kLongest / 2 * 3 + Duration::ns(5);
  pfc.tell(1, false, end);
  ASSERT_EQ(pfc.next_frame(), end);
  frame = pfc.take_frame(end);
  EXPECT_EQ(frame.priorities, 0x0c);
  EXPECT_EQ(frame.quanta[2], 0);
  EXPECT_TRUE(pfc.next_frame().is_never());
  EXPECT_EQ(pfc.counters_at(end).sent, 5u);
  EXPECT_EQ(pfc.counters_at(end).told, end - at(10));
  EXPECT_EQ(pfc.counters_at(end).late, Duration());
}

TEST(PortPfc, ShortPausesAreSaidInTurnHoweverLate) {
  PortPfc pfc = port();
  pfc.tell(1, true, at(10));
  pfc.tell(1, false, at(17));
  pfc.tell(2, true, at(17));
  // The loop comes late: what class 1 has to hear is said one after the other.
  PfcFrame frame = pfc.take_frame(at(20));
  EXPECT_EQ(frame.priorities, 0xfc);
  EXPECT_EQ(frame.quanta[2], 0xffff);
  EXPECT_EQ(frame.quanta[7], 0xffff);
  ASSERT_EQ(pfc.next_frame(), at(17));
  frame = pfc.take_frame(at(20));
  EXPECT_EQ(frame.priorities, 0x0c);
  EXPECT_EQ(frame.quanta[2], 0);
  EXPECT_EQ(pfc.next_frame(), at(20) + kLongest / 2) << "class 2 goes on pausing";
  EXPECT_EQ(pfc.counters_at(at(20)).late, Duration::ns(10));
}

TEST(PortPfc, OfALoopThatStandsStillTheLastWordCounts) {
  for (int changes = 1; changes <= 40; ++changes) {
    PortPfc pfc = port();
    for (int i = 0; i < changes; ++i) pfc.tell(2, i % 2 == 0, at(i));
    PfcFrame frame;
    unsigned frames = 0;
    for (; pfc.next_frame() <= at(100); ++frames) frame = pfc.take_frame(at(100));
    EXPECT_LE(frames, 8u);
    if (frames == 0) continue;
    EXPECT_EQ(frame.quanta[5] != 0, changes % 2 != 0) << changes;
    EXPECT_EQ(frames % 2, static_cast<unsigned>(changes % 2)) << changes;
  }
}

TEST(PortPfc, SeveralSendersOnOneWirePauseTogether) {
  PortPfc pfc = port();
  pfc.tell(1, true, at(1));
  pfc.tell(1, true, at(2));
  pfc.take_frame(at(1));
  pfc.tell(1, false, at(5));
  EXPECT_EQ(pfc.next_frame(), at(1) + kLongest / 2) << "one still has to pause";
  pfc.tell(1, false, at(9));
  EXPECT_EQ(pfc.next_frame(), at(9));
}

// rules: A8.2
TEST(PortPfc, WhatIsHeardLastsForItsQuanta) {
  PortPfc pfc = port();
  EXPECT_EQ(pfc.hear(frame_of(0x08, 100), at(0)), 0x02);
  EXPECT_TRUE(pfc.look(1, at(0)));
  EXPECT_TRUE(pfc.is_paused(1));
  EXPECT_FALSE(pfc.is_paused(2));
  ASSERT_EQ(pfc.pause_ends(1), at(512));
  EXPECT_FALSE(pfc.look(1, at(511)));
  // A later frame counts from its own time, whatever was heard before.
  EXPECT_EQ(pfc.hear(frame_of(0x08, 10), at(511)), 0x02);
  EXPECT_FALSE(pfc.look(1, at(512)));
  ASSERT_EQ(pfc.pause_ends(1), at(511) + Duration::ps(51'200));
  EXPECT_TRUE(pfc.look(1, pfc.pause_ends(1)));
  EXPECT_FALSE(pfc.is_paused(1));
  EXPECT_EQ(pfc.counters_at(at(600)).heard, at(511) + Duration::ps(51'200) - at(0));
}

// rules: A8.2
TEST(PortPfc, ZeroQuantaEndAPauseOfThatPriorityOnly) {
  PortPfc pfc = port();
  pfc.hear(frame_of(0x0c, 0xffff), at(0));
  EXPECT_TRUE(pfc.look(1, at(0)));
  pfc.hear(frame_of(0x04, 0), at(10));
  EXPECT_FALSE(pfc.look(1, at(10))) << "a class waits as long as one of its priorities does";
  pfc.hear(frame_of(0x08, 0), at(20));
  EXPECT_TRUE(pfc.look(1, at(20)));
  EXPECT_FALSE(pfc.is_paused(1));
}

TEST(PortPfc, ClassesWithoutPfcDoNotHear) {
  PortPfc pfc = port();
  EXPECT_EQ(pfc.hear(frame_of(0x03, 0xffff), at(0)), 0);
  EXPECT_EQ(pfc.hear(frame_of(0xff, 0xffff), at(0)), 0x06);
}

}  // namespace
}  // namespace understudy
