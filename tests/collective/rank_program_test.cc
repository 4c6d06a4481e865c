// What waits for what inside a rank, with schedules made for the test and an owner that keeps a
// list of what it hears.
#include "dataplane/collective/rank_program.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace understudy {
namespace {

/// Connections and waits as they are given; a message has 1,000 bytes.
class MadeSchedule final : public RankSchedule {
 public:
  explicit MadeSchedule(std::vector<Connection> connections) {
    connections_ = std::move(connections);
  }
  Message message(uint32_t, uint64_t) const override { return {1000, 1000, 0}; }
  Waits waits(uint32_t connection, uint64_t k) const override {
    Waits out;
    if (connection == waiting) out.add(moment, other, k);
    return out;
  }
  uint32_t waiting = ~0u, other = 0;  ///< message k of the one waits for message k of the other
  Wait::Moment moment = Wait::Moment::kDone;
};

Connection connection(Direction direction, uint64_t messages, uint32_t window, bool network = true,
                      uint32_t joint = 0) {
  Connection c;
  c.direction = direction;
  c.messages = messages;
  c.window = window;
  c.network = network;
  c.joint = joint;
  return c;
}
Connection sends(uint64_t messages, uint32_t window, bool network = true, uint32_t joint = 0) {
  return connection(Direction::kSend, messages, window, network, joint);
}
Connection receives(uint64_t messages, uint32_t window, bool network = true, uint32_t joint = 0) {
  return connection(Direction::kReceive, messages, window, network, joint);
}

class Owner final : public RankProgramOwner {
 public:
  void on_filled(const RankEnd& end, uint64_t k, Time) override { hear("fill", end, k); }
  void on_grantable(const RankEnd& end, uint64_t k, Time) override { hear("grant", end, k); }
  void on_passing(const RankEnd& end, Time at) override { passing.push_back({end, at}); }
  void on_done(uint32_t operation, uint32_t rank, Time) override {
    heard += "done " + std::to_string(operation) + "/" + std::to_string(rank) + "; ";
  }
  /// What was heard since the last call.
  std::string take() { return std::exchange(heard, ""); }

  std::vector<std::pair<RankEnd, Time>> passing;

 private:
  void hear(const char* what, const RankEnd& end, uint64_t k) {
    heard += std::string(what) + " " + std::to_string(end.rank) + "." +
             std::to_string(end.connection) + ":" + std::to_string(k) + "; ";
  }
  std::string heard;
};

RankPart part_of(const RankSchedule& schedule, std::vector<FarEnd> far = {}) {
  far.resize(schedule.connections().size());
  return RankPart(schedule, std::move(far), RankPart::Order::kByConnection);
}

const Time kNow = Time::zero() + Duration::us(1);

TEST(RankProgram, FillsAWindowWhenItHasEnteredAndTheNextWhenOneIsAcknowledged) {
  const MadeSchedule schedule({sends(3, 2)});
  const RankPart part = part_of(schedule);
  Owner owner;
  RankProgram program(owner, 1, 1, {});
  program.begin(0, 0, part);
  EXPECT_EQ(owner.take(), "");
  program.enter(0, 0, kNow);
  EXPECT_EQ(owner.take(), "fill 0.0:0; fill 0.0:1; ");
  program.acknowledged({0, 0, 0}, kNow);
  EXPECT_EQ(owner.take(), "fill 0.0:2; done 0/0; ");
}

TEST(RankProgram, GrantsAWindowThenOneForEachMessageThatIsUsed) {
  const MadeSchedule schedule({receives(4, 2)});
  const RankPart part = part_of(schedule);
  Owner owner;
  RankProgram program(owner, 1, 1, {});
  program.begin(0, 0, part);
  program.enter(0, 0, kNow);
  EXPECT_EQ(owner.take(), "grant 0.0:0; grant 0.0:1; ");
  program.arrived({0, 0, 0}, kNow);
  EXPECT_EQ(owner.take(), "grant 0.0:2; ");
  program.arrived({0, 0, 0}, kNow);
  program.arrived({0, 0, 0}, kNow);
  EXPECT_EQ(owner.take(), "grant 0.0:3; ");
  program.arrived({0, 0, 0}, kNow);
  EXPECT_EQ(owner.take(), "done 0/0; ");
}

TEST(RankProgram, AMessageWaitsForTheArrivalOrTheUseOfAnother) {
  for (const Wait::Moment moment : {Wait::Moment::kArrival, Wait::Moment::kDone}) {
    MadeSchedule schedule({receives(2, 8), sends(2, 8)});
    schedule.waiting = 1;
    schedule.other = 0;
    schedule.moment = moment;
    const RankPart part = part_of(schedule);
    Owner owner;
    RankProgram program(owner, 1, 1, {});
    program.begin(0, 0, part);
    program.enter(0, 0, kNow);
    EXPECT_EQ(owner.take(), "grant 0.0:0; grant 0.0:1; ");
    program.arrived({0, 0, 0}, kNow);
    EXPECT_EQ(owner.take(), "fill 0.1:0; ");
  }
}

TEST(RankProgram, ConnectionsOfAJointTakeAMessageTogether) {
  const MadeSchedule schedule({receives(2, 2, true, 1), sends(2, 1, true, 1)});
  const RankPart part = part_of(schedule);
  Owner owner;
  RankProgram program(owner, 1, 1, {});
  program.begin(0, 0, part);
  program.enter(0, 0, kNow);
  EXPECT_EQ(owner.take(), "grant 0.0:0; grant 0.0:1; ");  // what it sends could leave alone
  program.arrived({0, 0, 0}, kNow);
  EXPECT_EQ(owner.take(), "fill 0.1:0; ");
  program.arrived({0, 0, 0}, kNow);
  EXPECT_EQ(owner.take(), "");  // the window of what it sends is full
  program.acknowledged({0, 0, 1}, kNow);
  EXPECT_EQ(owner.take(), "fill 0.1:1; done 0/0; ");
}

TEST(RankProgram, ARankWithoutMessagesIsDoneWhenItEnters) {
  const MadeSchedule schedule({});
  const RankPart part = part_of(schedule);
  Owner owner;
  RankProgram program(owner, 1, 1, {});
  program.begin(0, 0, part);
  program.enter(0, 0, kNow);
  EXPECT_EQ(owner.take(), "done 0/0; ");
}

TEST(RankProgram, WaysInsideANodeTakeNoTimeOrTheirRateAndLatency) {
  const MadeSchedule from({sends(2, 1, false)}), to({receives(2, 1, false)});
  const RankPart sender = part_of(from, {{1, 0}}), receiver = part_of(to, {{0, 0}});
  Owner owner;
  RankProgram at_once(owner, 2, 1, {});
  at_once.begin(0, 0, sender);
  at_once.begin(0, 1, receiver);
  at_once.enter(0, 1, kNow);
  EXPECT_EQ(owner.take(), "");
  at_once.enter(0, 0, kNow);
  EXPECT_EQ(owner.take(), "fill 0.0:0; fill 0.0:1; done 0/0; done 0/1; ");

  // 1,000 bytes at 8 Gb/s take 1 us.
  const NodeWay way{Rate::bits_per_second(8'000'000'000), Duration::ns(100)};
  RankProgram timed(owner, 2, 1, way);
  timed.begin(0, 0, sender);
  timed.begin(0, 1, receiver);
  timed.enter(0, 1, kNow);
  timed.enter(0, 0, kNow);
  EXPECT_EQ(owner.take(), "fill 0.0:0; ");
  ASSERT_EQ(owner.passing.size(), 1u);
  const auto [end, at] = owner.passing.front();
  EXPECT_EQ(end.rank, 1u);
  EXPECT_EQ(at, kNow + Duration::us(1) + Duration::ns(100));
  timed.passed(end, at);
  ASSERT_EQ(owner.passing.size(), 2u);  // the buffer is free a latency later
  EXPECT_EQ(owner.passing.back().first.rank, 0u);
  EXPECT_EQ(owner.passing.back().second, at + Duration::ns(100));
  timed.passed(owner.passing.back().first, owner.passing.back().second);
  EXPECT_EQ(owner.take(), "fill 0.0:1; done 0/0; ");
}

TEST(RankProgram, ASlotServesOneOperationAfterTheOther) {
  const MadeSchedule schedule({sends(1, 1)});
  const RankPart part = part_of(schedule);
  Owner owner;
  RankProgram program(owner, 1, 2, {});
  program.reserve(0, part);
  for (uint32_t operation = 0; operation < 5; ++operation) {
    program.begin(operation, 0, part);
    program.enter(operation, 0, kNow);
    EXPECT_EQ(owner.take(), "fill 0.0:0; done " + std::to_string(operation) + "/0; ");
  }
}

}  // namespace
}  // namespace understudy
