// Our end of the protocol of a guest's clock.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <deque>

#include "dataplane/virtual_time/guest_clock.h"
#include "dataplane/virtual_time/guest_socket.h"

namespace understudy {
namespace {

/// As um_timetravel.h numbers them.
enum Op : uint32_t { kAck, kStart, kRequest, kWait, kGet, kUpdate, kRun, kFreeUntil, kTimeOfDay };

struct Message {
  uint32_t op = 0, number = 0;
  uint64_t time = 0;
  bool operator==(const Message&) const = default;
};
static_assert(sizeof(Message) == 16);

void PrintTo(const Message& m, std::ostream* out) {
  *out << "{op " << m.op << ", number " << m.number << ", " << m.time << " ns}";
}

class Clock : public testing::Test {
 protected:
  Clock() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    guest = UniqueFd(ends[0]);
    clock = GuestClock(
        UniqueFd(ends[1]), [this] { return others; },
        [this]() -> Result<void> {
          if (failure) return fail("waited in vain");
          while (!script.empty()) {  // what the guest says before its acknowledgement, and that
            say(script.front());
            script.pop_front();
          }
          return {};
        });
  }
  void say(const Message& message) const {
    ASSERT_EQ(send(guest.get(), &message, sizeof message, MSG_NOSIGNAL), ssize_t{sizeof message});
  }
  Message heard() const {
    Message message;
    EXPECT_TRUE(read_whole(guest.get(), {reinterpret_cast<uint8_t*>(&message), sizeof message}));
    return message;
  }
  bool silent() const {
    char byte;
    return recv(guest.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
  }
  /// The guest says it, and gets this answer.
  void expect_answer(const Message& message, uint64_t time) {
    say(message);
    ASSERT_TRUE(clock.serve());
    EXPECT_EQ(heard(), (Message{kAck, message.number, time}));
  }
  void expect_error(const Message& message, const std::string& text) {
    say(message);
    const auto served = clock.serve();
    ASSERT_FALSE(served);
    EXPECT_EQ(served.error().text, text);
  }
  /// It has booted, and wants to run at `wanted`.
  void wait_from(uint64_t wanted) {
    say({kRequest, 1, wanted});
    say({kWait, 2, 0});
    ASSERT_TRUE(clock.serve());
    ASSERT_TRUE(clock.serve());
    heard();
    heard();
  }
  /// Lets it run on its own until `free`.
  void run(uint64_t time, uint64_t free) {
    numbers = clock_numbers(2);
    script = {{kAck, numbers[0], 0}, {kAck, numbers[1], 0}};
    ASSERT_TRUE(clock.run(time, free));
    ASSERT_EQ(heard(), (Message{kFreeUntil, numbers[0], free}));
    ASSERT_EQ(heard(), (Message{kRun, numbers[1], time}));
  }
  std::vector<uint32_t> clock_numbers(uint32_t count) {
    std::vector<uint32_t> all;
    for (uint32_t i = 0; i < count; ++i) all.push_back(++last);
    return all;
  }

  UniqueFd guest;
  GuestClock clock;
  uint64_t others = 0;  ///< now, for those who ask
  std::deque<Message> script;
  bool failure = false;
  uint32_t last = 0;  ///< number of what we say
  std::vector<uint32_t> numbers;
};

TEST_F(Clock, ABootAsksForATimeAndWaits) {
  EXPECT_FALSE(clock.waits());
  EXPECT_EQ(clock.wanted(), GuestClock::kNever);
  expect_answer({kStart, 77, 1}, 0);
  expect_answer({kTimeOfDay, 78, 0}, 1'700'000'000'000'000'000);
  expect_answer({kGet, 79, 0}, 0);
  expect_answer({kRequest, 80, 4'000'000}, 0);
  EXPECT_EQ(clock.wanted(), 4'000'000u);
  EXPECT_FALSE(clock.waits());
  expect_answer({kWait, 81, 0}, 0);
  EXPECT_TRUE(clock.waits());
}

TEST_F(Clock, ATimeFarAwayIsNever) {
  expect_answer({kRequest, 1, (uint64_t{1} << 62) - 1}, 0);
  EXPECT_EQ(clock.wanted(), (uint64_t{1} << 62) - 1);
  expect_answer({kRequest, 2, uint64_t{1} << 62}, 0);
  EXPECT_EQ(clock.wanted(), GuestClock::kNever);
}

TEST_F(Clock, RunsAsLongAsItIsFree) {
  wait_from(5000);
  run(5000, 9000);
  EXPECT_FALSE(clock.waits());
  EXPECT_EQ(clock.wanted(), GuestClock::kNever) << "it asks anew";
  EXPECT_EQ(clock.time(), 5000u);
  expect_answer({kUpdate, 3, 7000}, 0);
  EXPECT_EQ(clock.time(), 7000u);
  expect_answer({kGet, 4, 0}, 7000);
  expect_answer({kTimeOfDay, 5, 0}, 1'700'000'000'000'007'000);
  expect_answer({kUpdate, 6, 9000}, 0);
  expect_answer({kRequest, 7, 20'000}, 0);
  expect_answer({kWait, 8, 0}, 0);
  EXPECT_TRUE(clock.waits());
  EXPECT_EQ(clock.wanted(), 20'000u);
}

TEST_F(Clock, IsNotFreeWhereSomethingElseIsDueAtOnce) {
  wait_from(5000);
  script = {{kAck, 1, 0}};
  ASSERT_TRUE(clock.run(5000, 5000));
  EXPECT_EQ(heard(), (Message{kRun, 1, 5000}));
  EXPECT_TRUE(silent());
  expect_answer({kUpdate, 3, 5000}, 0);
  expect_error({kUpdate, 4, 5001}, "moved its clock from 5000 to 5001 ns, and was free until 5000");
}

TEST_F(Clock, TimeDoesNotGoBack) {
  wait_from(0);
  run(6000, 7000);
  expect_answer({kUpdate, 3, 6500}, 0);
  expect_error({kUpdate, 4, 6499}, "moved its clock from 6500 to 6499 ns, and was free until 7000");
}

TEST_F(Clock, OneThatRunsLateRunsAtItsOwnTime) {
  wait_from(0);
  run(6000, 7000);
  expect_answer({kWait, 3, 0}, 0);
  numbers = clock_numbers(1);
  script = {{kAck, numbers[0], 0}};
  ASSERT_TRUE(clock.run(100, 200)) << "what it was asked to do in the past";
  EXPECT_EQ(heard(), (Message{kRun, numbers[0], 6000}));
}

TEST_F(Clock, LimitsComeDownOnly) {
  wait_from(0);
  run(1000, 9000);
  ASSERT_TRUE(clock.limit(9000));
  ASSERT_TRUE(clock.limit(10'000));
  EXPECT_TRUE(silent());
  numbers = clock_numbers(1);
  script = {{kAck, numbers[0], 0}};
  ASSERT_TRUE(clock.limit(4000));
  EXPECT_EQ(heard(), (Message{kFreeUntil, numbers[0], 4000}));
  expect_error({kUpdate, 3, 4001}, "moved its clock from 1000 to 4001 ns, and was free until 4000");
}

TEST_F(Clock, ALimitInItsPastIsItsPresent) {
  wait_from(0);
  run(1000, 9000);
  expect_answer({kUpdate, 3, 5000}, 0);
  numbers = clock_numbers(1);
  script = {{kAck, numbers[0], 0}};
  ASSERT_TRUE(clock.limit(2000));
  EXPECT_EQ(heard(), (Message{kFreeUntil, numbers[0], 5000}));
}

TEST_F(Clock, MessagesThatCrossAreAnswered) {
  wait_from(5000);
  // An interrupt made it ask for an earlier time while we told it the later one.
  script = {{kGet, 50, 0}, {kRequest, 51, 4000}, {kAck, 1, 0}, {kAck, 2, 0}};
  others = 3500;
  ASSERT_TRUE(clock.run(5000, 9000));
  EXPECT_EQ(heard(), (Message{kFreeUntil, 1, 9000}));
  EXPECT_EQ(heard(), (Message{kAck, 50, 5000}));
  EXPECT_EQ(heard(), (Message{kAck, 51, 0}));
  EXPECT_EQ(heard(), (Message{kRun, 2, 5000}));
  EXPECT_EQ(clock.wanted(), 4000u);
}

TEST_F(Clock, WhileItWaitsTimeIsTheOthers) {
  wait_from(5000);
  others = 4321;
  expect_answer({kGet, 3, 0}, 4321);
  others = 0;
  expect_answer({kGet, 4, 0}, 0);
}

TEST_F(Clock, AnAcknowledgementOfNothing) {
  expect_error({kAck, 1, 0}, "says what this protocol does not have: operation 0");
  script = {{kAck, 77, 0}};
  const auto ran = clock.run(1, 1);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().text, "acknowledges what it was not told");
}

TEST_F(Clock, OperationsThatAreNone) {
  for (const uint32_t op : {uint32_t{kRun}, uint32_t{kFreeUntil}, 9u, 0xffffffffu}) {
    expect_error({op, 1, 0},
                 "says what this protocol does not have: operation " + std::to_string(op));
  }
}

TEST_F(Clock, AGuestThatIsGone) {
  wait_from(5000);
  guest = UniqueFd();
  EXPECT_FALSE(clock.gone());
  ASSERT_TRUE(clock.serve());
  EXPECT_TRUE(clock.gone());
  EXPECT_TRUE(clock.run(6000, 7000)) << "nothing to wait for";
  EXPECT_TRUE(clock.serve());
}

TEST_F(Clock, AGuestThatGoesBeforeItsAcknowledgement) {
  wait_from(5000);
  script = {{kGet, 9, 0}};
  shutdown(guest.get(), SHUT_RD);
  EXPECT_TRUE(clock.run(6000, 7000));
  EXPECT_TRUE(clock.gone());
}

TEST_F(Clock, HalfAMessageIsAnEnd) {
  const uint64_t half = kRequest;
  ASSERT_EQ(send(guest.get(), &half, sizeof half, 0), ssize_t{sizeof half});
  guest = UniqueFd();
  ASSERT_TRUE(clock.serve());
  EXPECT_TRUE(clock.gone());
}

TEST_F(Clock, AWaitThatFailsIsAnError) {
  wait_from(5000);
  failure = true;
  const auto ran = clock.run(6000, 7000);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().text, "waited in vain");
}

}  // namespace
}  // namespace understudy
