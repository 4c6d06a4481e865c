// A job that lists no operations: whatever the real rank's program does, by its plugin's word or by
// what is seen of it.
#include "ctrl/jobs/packet_model.h"
#include "ctrl/peers/feed.h"
#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"
#include "ctrl/report/table.h"
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

/// What the program does: two sizes, each so often.
struct Program {
  std::vector<uint64_t> sizes = {144'000, 36'000};
  uint32_t times = 3;
  Algorithm algorithm = Algorithm::kRing;
  size_t operations() const { return sizes.size() * times; }
  uint64_t bytes(size_t operation) const { return sizes[operation / times]; }
};

VirtualJob::Options options_of(uint32_t minor, const Program& program, uint32_t rank = 0) {
  VirtualJob::Options options;
  options.mistake = [program](JobConfig& job) {
    job.sizes = program.sizes;
    job.iterations = program.times;
  };
  options.plugin = [minor, program, rank](const NcclUniqueId& made) {
    std::vector<uint8_t> feed;
    for (uint64_t number = 0; number < program.operations(); ++number) {
      FedOperation fed;
      fed.rank = rank;
      fed.communicator = communicator_hash(made, {minor});
      fed.sequence = number;
      fed.operation.algorithm = program.algorithm;
      fed.operation.count = program.bytes(number) / 4;
      fed.operation.channels = 2;
      const auto record = record_of(fed);
      feed.insert(feed.end(), record.begin(), record.end());
    }
    return feed;
  };
  return options;
}

Case case_of(const std::string& operations) {
  Case c;
  c.sizes = "";
  c.more = "operations = \"" + operations + "\"\n";
  return c;
}

Config config_of_unlisted(const Case& c, uint32_t minor, const ScratchFile& id) {
  return config_of(text_of(c, minor, "file = \"" + id.path() + "\""));
}

/// What operations of these sizes take in a run that lists them.
std::vector<Duration> listed_times(uint32_t minor, const Program& program) {
  Case c;
  c.sizes = "";
  for (const uint64_t size : program.sizes) {
    c.sizes += (c.sizes.empty() ? "\"" : ", \"") + std::to_string(size) + "B\"";
  }
  const ScratchFile id("id.of.listed");
  const Config config = config_of_unlisted(c, minor, id);
  auto scenario = compile_scenario({config}, RunClock::kVirtual);
  EXPECT_TRUE(scenario) << scenario.error().text;
  auto state = begin_job(config, config.jobs[0], scenario->jobs[0].setup);
  EXPECT_TRUE(state && model_by_packets(config, config.jobs[0], **state));
  EXPECT_EQ((*state)->model, ModelKind::kPackets);
  return (*state)->modelled;
}

TEST(NcclUnlisted, EachKindHasARowOfItsOwn) {
  const Program program;
  for (const uint32_t minor : {23U, 28U, 30U}) {
    SCOPED_TRACE("2." + std::to_string(minor));
    const ScratchFile id("id.of.unlisted");
    const Config config = config_of_unlisted(case_of("fed"), minor, id);
    ASSERT_FALSE(config.jobs[0].listed);
    VirtualJob job(config, options_of(minor, program));
    ASSERT_EQ(job.run(), "");
    expect_right(job, true);
    const JobReport report = job.report();
    EXPECT_FALSE(report.listed);
    EXPECT_EQ(report.planned, program.operations());
    ASSERT_EQ(report.collectives.size(), program.operations());
    ASSERT_EQ(report.kinds.size(), 2U);
    EXPECT_EQ(report.kinds[0].text, "all_reduce ring simple of 144000 B");
    EXPECT_EQ(report.kinds[1].text, "all_reduce ring simple of 36000 B");
    const std::vector<Duration> listed = listed_times(minor, program);
    for (uint32_t i = 0; i < program.operations(); ++i) {
      const CollectiveReport& o = report.collectives[i];
      EXPECT_EQ(o.bytes, program.bytes(i));
      EXPECT_EQ(o.size_index, i / program.times);
      EXPECT_EQ(o.iteration, i % program.times);
      EXPECT_EQ(o.modelled, listed[o.size_index]);
    }
    for (const InferredReport& o : report.inferred->operations) EXPECT_EQ(o.right, std::nullopt);
    const std::string table = job_table(report);
    EXPECT_NE(table.find("what its programs do, 6 operations"), std::string::npos) << table;
    EXPECT_NE(table.find("# 36000 B: all_reduce ring simple of 36000 B, 3 times"),
              std::string::npos)
        << table;
  }
}

/// Rank 5 has done its part of an operation, and sends for the next one by credits that were granted
/// ahead, while rank 3, which is above it in one tree, still waits in the other one for rank 2, which
/// is far away.
TEST(NcclUnlisted, ARealRankIsAheadOfAnEmulatedOne) {
  Program program;
  program.algorithm = Algorithm::kTree;
  program.sizes = {65'536};
  program.times = 4;
  Case c = case_of("fed");
  c.algorithm = "tree";
  c.ranks = 8;
  c.real = 5;
  c.interval = "0s";
  const ScratchFile id("id.of.tree");
  Config config = config_of_unlisted(c, 28, id);
  config.nodes[2].nics[0].link_latency = Duration::us(200);
  VirtualJob job(config, options_of(28, program, c.real));
  ASSERT_EQ(job.run(), "");
  expect_right(job, true);
  const JobReport report = job.report();
  EXPECT_EQ(report.violations, 0U);
  EXPECT_EQ(report.collectives.size(), program.operations());
}

/// Control hears that a process's plugin has gone, or was killed in the middle of a record, once the
/// next process's communicator is there.
TEST(NcclUnlisted, ThePluginBeforeGoesLate) {
  for (const bool breaks_off : {false, true}) {
    SCOPED_TRACE(breaks_off);
    const ScratchFile id("id.of.two");
    const Program program;
    VirtualJob::Options options = options_of(28, program);
    options.rounds = {0, 0};
    options.plugin_breaks_off = breaks_off;
    const std::string join = "file = \"" + id.path() + "\", communicators = 2";
    VirtualJob job(config_of(text_of(case_of("fed"), 28, join)), options);
    ASSERT_EQ(job.run(), "");
    const JobReport report = job.report();
    EXPECT_EQ(report.inferred->lost, "");
    ASSERT_EQ(report.collectives.size(), 2 * program.operations());
    ASSERT_EQ(report.communicators.size(), 2U);
    for (const auto& communicator : report.communicators) {
      EXPECT_EQ(communicator.done, program.operations());
    }
  }
}

/// Nothing follows a feed that has ended: who tells more is not followed, and the report says so.
TEST(NcclUnlisted, AFeedThatHasEndedTellsNothingFurther) {
  const ScratchFile id("id.of.ended");
  VirtualJob::Options options = options_of(28, Program());
  options.plugin_tells = 2 * FeedRecord::kBytes;
  VirtualJob job(config_of_unlisted(case_of("fed"), 28, id), options);
  job.run();
  EXPECT_EQ(job.report().inferred->lost, "the feed tells a further operation after its end");
}

/// The guesses of a job that lists the same operations are as good.
TEST(NcclUnlisted, Inferred) {
  const ScratchFile id("id.of.guessed");
  const Config config = config_of_unlisted(case_of("inferred"), 28, id);
  Program program;
  program.sizes = {144'000};
  program.times = 6;
  VirtualJob::Options options = options_of(28, program);
  options.plugin = nullptr;
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  const JobReport report = job.report();
  ASSERT_EQ(report.inferred->lost, "");
  ASSERT_EQ(report.collectives.size(), program.operations());
  for (const CollectiveReport& o : report.collectives) {
    EXPECT_EQ(report.kinds[o.size_index].text, "all_reduce ring simple of 144000 B");
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
