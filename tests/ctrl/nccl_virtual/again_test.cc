// Communicators that come one after another, in virtual time: emulated ranks forget the last one,
// wherever it stood, and carry out the next one as if it were the first.
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

struct Again {
  Case c;
  uint32_t minor = 28;
  std::vector<size_t> rounds;
  std::string join = {};  ///< empty: a file
};

Case of(const std::string& algorithm, unsigned real, const std::string& payload = "synthetic") {
  Case c;
  c.algorithm = algorithm;
  c.real = real;
  c.payload = payload;
  c.more = "iterations = 3\n";
  return c;
}

/// Times of the operations of each communicator, as the emulated side measured them.
std::vector<std::vector<Duration>> times(const JobReport& report) {
  std::vector<std::vector<Duration>> all(report.communicators.size());
  for (const CollectiveReport& c : report.collectives) all[c.communicator].push_back(c.measured);
  return all;
}

void play_again(const Again& again) {
  SCOPED_TRACE(again.c.algorithm + " " + again.c.payload + ", real rank " +
               std::to_string(again.c.real));
  const ScratchFile id("id.again");
  const std::string join = again.join.empty() ? "file = \"" + id.path() + "\"" : again.join;
  const std::string count = ", communicators = " + std::to_string(again.rounds.size());
  const Config config = config_of(text_of(again.c, again.minor, join + count));
  if (testing::Test::HasFailure()) return;
  VirtualJob::Options options;
  options.rounds = again.rounds;
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  expect_right(job, false);
  const JobReport report = job.report();
  ASSERT_EQ(report.communicators.size(), again.rounds.size());
  EXPECT_EQ(report.violations, 0u);
  Time last;
  for (size_t i = 0; i < again.rounds.size(); ++i) {
    const CommunicatorReport& one = report.communicators[i];
    EXPECT_EQ(one.planned, 3u);
    EXPECT_EQ(one.done, again.rounds[i] == 0 ? 3 : again.rounds[i] - 1) << i;
    ASSERT_TRUE(one.joined && one.ended) << i;
    EXPECT_LT(last, *one.joined);
    EXPECT_LT(*one.joined, *one.ended);
    last = *one.ended;
    const std::string end = again.rounds[i] == 0
                                ? "the real ranks have left the communicator"
                                : "has gone in the middle of operation " +
                                      std::to_string(again.rounds[i]) + " of 3 (all_reduce ";
    EXPECT_NE(one.end.find(end), std::string::npos) << one.end;
  }
  // As if each were the first: to the picosecond, but for what crosses it from the one before.
  const auto measured = times(report);
  for (size_t i = 1; i < measured.size(); ++i) {
    if (again.rounds[i] != 0 || again.rounds[i - 1] != 0) continue;
    EXPECT_EQ(measured[i], measured[0]) << i;
  }
}

TEST(NcclVirtualAgain, OneAfterAnother) {
  play_again({.c = of("ring", 0), .rounds = {0, 0, 0}});
  play_again({.c = of("ring", 2, "exact"), .minor = 22, .rounds = {0, 0}});
  play_again({.c = of("tree", 0, "exact"), .minor = 30, .rounds = {0, 0}});
  play_again({.c = of("tree", 3), .minor = 18, .rounds = {0, 0}});
}

TEST(NcclVirtualAgain, ByCommId) {
  play_again({.c = of("ring", 0), .rounds = {0, 0}, .join = "comm_id = \"10.9.0.1:5555\""});
  play_again({.c = of("ring", 1), .rounds = {0, 2, 0}, .join = "comm_id = \"10.9.0.1:5555\""});
}

/// Messages of emulated ranks to each other may be anywhere by then.
TEST(NcclVirtualAgain, AfterOneThatEndedInTheMiddle) {
  for (const char* algorithm : {"ring", "tree"}) {
    for (const unsigned real : {0U, 2U}) {
      play_again({.c = of(algorithm, real, "exact"), .rounds = {2, 0}});
      play_again({.c = of(algorithm, real), .rounds = {1, 3, 0}});
    }
  }
}

/// Nobody knows the operations beforehand: each communicator is found out by itself.
TEST(NcclVirtualAgain, InferredOperations) {
  Case c = of("ring", 0);
  c.more = "iterations = 6\noperations = \"inferred\"\n";
  const ScratchFile id("id.inferred");
  const Config config =
      config_of(text_of(c, 28, "file = \"" + id.path() + "\", communicators = 2"));
  VirtualJob::Options options;
  options.rounds = {0, 0};
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  const JobReport report = job.report();
  ASSERT_EQ(report.communicators.size(), 2u);
  ASSERT_TRUE(report.inferred);
  EXPECT_EQ(report.inferred->lost, "");
  EXPECT_EQ(report.violations, 0u);
  for (const CommunicatorReport& one : report.communicators) EXPECT_EQ(one.done, 6u);
  EXPECT_EQ(report.inferred->operations.size(), 12u);
}

}  // namespace
}  // namespace understudy::nccl_rank
