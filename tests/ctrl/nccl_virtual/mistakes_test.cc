// Real ranks that do something else than their configuration says: the emulated side says so within
// ten seconds, with what it saw. They may hang, as NCCL's would.
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

struct Seen {
  std::vector<std::string> said;
  Time at;  ///< when the run was over, or given up
};

Seen run_with(const std::function<void(JobConfig&)>& mistake, Case c = {},
              VirtualJob::Options options = {}) {
  const ScratchFile id("id");
  const Config config = config_of(text_of(c, 28, "file = \"" + id.path() + "\""));
  options.mistake = mistake;
  VirtualJob job(config, options);
  (void)job.run();
  return {job.said(), job.now()};
}

std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

void expect_said(const Seen& seen, const std::string& words) {
  EXPECT_EQ(times_said(seen.said, words), 1u) << words << "\n" << all(seen.said);
}

TEST(NcclVirtualMistakes, NoneIsSaidOfARunThatIsRight) {
  const Seen seen = run_with([](JobConfig&) {});
  EXPECT_EQ(times_said(seen.said, "schedule"), 0u) << all(seen.said);
  EXPECT_EQ(times_said(seen.said, "operations"), 0u) << all(seen.said);
  EXPECT_EQ(times_said(seen.said, "for 5 s"), 0u) << all(seen.said);
}

// Emulated ranks that follow their own program have entered the next operation by then.
TEST(NcclVirtualMistakes, NoneIsSaidOfAProgramThatPauses) {
  for (const char* entry : {"first_credit", "scheduled"}) {
    Case c;
    c.more = "iterations = 3\nentry = \"" + std::string(entry) + "\"\n";
    VirtualJob::Options options;
    options.real_interval = Duration::s(7);
    const Seen seen = run_with([](JobConfig&) {}, c, options);
    EXPECT_GT(seen.at, Time::zero() + Duration::s(14)) << all(seen.said);
    EXPECT_EQ(times_said(seen.said, "for 5 s"), 0u) << entry << "\n" << all(seen.said);
  }
}

TEST(NcclVirtualMistakes, OtherSizesAreNamed) {
  const Seen seen = run_with([](JobConfig& job) { job.sizes = {400'000}; });
  expect_said(
      seen,
      "operation 1 of 1 (all_reduce ring simple of 200000 B): a message of rank 0 to rank 1 "
      "has 32768 bytes, of the job's schedule 26624");
}

TEST(NcclVirtualMistakes, AnotherProtocolIsNamed) {
  expect_said(
      run_with([](JobConfig& job) { job.protocol = Protocol::kLL; }),
      "operation 1 of 1 (all_reduce ring simple of 200000 B): a message of rank 0 to rank 1");
}

TEST(NcclVirtualMistakes, MoreOperationsAreNamed) {
  expect_said(run_with([](JobConfig& job) { job.iterations = 3; }),
              "all 1 operations of the job are done, and rank 0 begins another one");
}

TEST(NcclVirtualMistakes, FewerOperationsAreNamed) {
  Case c;
  c.more = "iterations = 3\n";
  expect_said(run_with([](JobConfig& job) { job.iterations = 1; }, c),
              "the real ranks have left the communicator after 1 of 3 operations");
}

TEST(NcclVirtualMistakes, AnotherReleaseIsNamed) {
  const Seen seen = run_with([](JobConfig& job) { job.nccl = NcclVersion{22}; });
  EXPECT_EQ(times_said(seen.said, "for 5 s"), 1u) << all(seen.said);
  expect_said(seen, "cannot read those of another release");
}

}  // namespace
}  // namespace understudy::nccl_rank
