// What control says of a job that does not go on, and of slow real nodes.
#include "ctrl/jobs/job_watch.h"

#include <gtest/gtest.h>

#include "ctrl/compile/scenario.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr const char* kRing = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[port]]
real = "gpu"
nic = 0
device = "net"
[[node]]
name = "gpu"
real = true
link = { rate = "1Gbit/s", latency = "1us" }
[[node]]
name = "w"
count = 3
link = { rate = "1Gbit/s", latency = "1us" }
[[job]]
name = "j"
collective = "all_reduce"
ranks = ["gpu", "w*"]
sizes = ["64KiB"]
warmup = 1
iterations = 5
)";

class Watch : public ::testing::Test {
 protected:
  Watch() : config(std::move(*load_config_text(kRing, "test"))) {
    auto scenario = compile_scenario({config}, RunClock::kReal);
    state = std::move(*begin_job(config, config.jobs[0], scenario->jobs[0].setup));
    progress = std::make_unique<CollectiveProgress>(state->setup->operations.size());
  }
  std::vector<std::string> look(Duration at) {
    return watch.look(Time::zero() + at, {*state->setup, *state, {real_time, others}, found},
                      *progress, [this] { ++asked; });
  }
  /// Of every operation so far; more are done.
  void finish(uint32_t count, double factor, Duration late) {
    for (uint32_t i = progress->finished; i < progress->finished + count; ++i) {
      CollectiveResult& result = progress->results[i];
      result.entry = Time::zero();
      result.end =
          Time::zero() +
          Duration::ps(static_cast<int64_t>(static_cast<double>(state->modelled[i].ps()) * factor));
      result.lateness = late;
    }
    progress->finished += count;
  }

  Config config;
  std::unique_ptr<JobState> state;
  std::unique_ptr<CollectiveProgress> progress;
  JobWatch watch;
  bool real_time = true, others = false;
  const InferenceReport* found = nullptr;
  int asked = 0;
};

TEST_F(Watch, NothingIsSaidOfARankThatHasNotBegun) {
  EXPECT_TRUE(look(Duration::s(0)).empty());
  EXPECT_TRUE(look(Duration::s(60)).empty());
  EXPECT_EQ(asked, 0);  // nothing has ever come
  progress->moved = 3;
  EXPECT_TRUE(look(Duration::s(61)).empty());
  EXPECT_TRUE(look(Duration::s(67)).empty());
  EXPECT_EQ(asked, 1);
  progress->has_standing = true;  // and nothing is waited for
  EXPECT_TRUE(look(Duration::s(68)).empty());
  EXPECT_EQ(watch.standing(), "");
}

TEST_F(Watch, AnOperationThatDoesNotGoOnIsSaidOnce) {
  progress->moved = 3;
  EXPECT_TRUE(look(Duration::s(1)).empty());
  EXPECT_TRUE(look(Duration::ms(5'999)).empty());
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(look(Duration::s(6)).empty());
  EXPECT_EQ(asked, 1);
  StandingOperation& found = progress->standing;
  found.operation = 1;
  found.waits = 6;
  const auto real = static_cast<uint32_t>(
      std::ranges::find(state->setup->job.links, true, &CollectiveConnection::real_sends) -
      state->setup->job.links.begin());
  found.first[0] = {LinkWait::What::kData, real, 2, 6};
  found.first[1] = {LinkWait::What::kCredit, 1 - real, 3, 6};
  found.first[2] = {LinkWait::What::kAcknowledgement, 1 - real, 4, 6};
  found.first[3] = {LinkWait::What::kData, real, 5, 6};
  progress->has_standing = true;
  const std::string said =
      "operation 2 of 6 (all_reduce ring simple of 65536 B) does not go on: rank 1 waits for "
      "message "
      "3 of 6 of rank 0; rank 3 waits for a credit of rank 0 for message 4 of 6; rank 3 waits for "
      "the "
      "NIC of rank 0 to acknowledge message 5 of 6; rank 1 waits for message 6 of 6 of rank 0; and "
      "2 "
      "more";
  EXPECT_EQ(look(Duration::s(7)), std::vector{said + " (nothing has come for 5 s)"});
  EXPECT_EQ(watch.standing(), said);
  EXPECT_TRUE(look(Duration::s(30)).empty());
  EXPECT_EQ(asked, 1);
  ++progress->moved;  // it goes on
  EXPECT_TRUE(look(Duration::s(31)).empty());
  EXPECT_EQ(watch.standing(), "");
  EXPECT_TRUE(look(Duration::s(36)).empty());
  EXPECT_EQ(asked, 2);
}

// It may be another one than the job lists, or a further one.
TEST_F(Watch, AnOperationThatAFeedToldIsNamedAsItWasTold) {
  InferenceReport told;
  told.fed = true;
  told.operations.resize(8);
  told.operations[7].operation = "broadcast ring ll of 8 B";
  found = &told;
  progress->moved = 3;
  progress->finished = 6;  // as many as the job lists
  EXPECT_TRUE(look(Duration::s(1)).empty());
  EXPECT_TRUE(look(Duration::s(6)).empty());
  EXPECT_EQ(asked, 1);
  progress->standing.begin(7);
  progress->standing.add({LinkWait::What::kData, 0, 2, 6});
  progress->has_standing = true;
  const auto lines = look(Duration::s(7));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("operation 8 (broadcast ring ll of 8 B) does not go on: rank "), 0u)
      << lines[0];
}

TEST_F(Watch, SlowRealNodesAreNamedAfterThreeOperations) {
  progress->moved = 1;
  finish(3, 4, Duration());  // one is a warm-up
  EXPECT_TRUE(look(Duration::s(1)).empty());
  finish(1, 4, Duration());
  const auto lines = look(Duration::s(2));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("the first 3 operations took 4.00 times as long as modelled, of which "
                          "emulated ranks were late for 0.0 % at most: for 75 % of the time they "
                          "waited for the real nodes"),
            0u)
      << lines[0];
  finish(1, 9, Duration());
  EXPECT_TRUE(look(Duration::s(3)).empty());
}

TEST_F(Watch, NothingIsSaidWhereTheEmulatedSideIsLateOrTimeIsVirtual) {
  progress->moved = 1;
  finish(5, 4, state->modelled[0] * 3);
  EXPECT_TRUE(look(Duration::s(1)).empty());
  real_time = false;
  watch = JobWatch();
  for (uint32_t i = 0; i < 5; ++i) progress->results[i].lateness = Duration();
  EXPECT_TRUE(look(Duration::s(1)).empty());
}

}  // namespace
}  // namespace understudy
