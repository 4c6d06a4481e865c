// A job that lists no operations: whatever the real rank's program does, by its plugin's word or by
// what is seen of it.
#include "ctrl/peers/feed.h"
#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"
#include "ctrl/report/table.h"
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

/// What the program does: two sizes, each so often.
constexpr uint64_t kSizes[] = {144'000, 36'000};
constexpr uint32_t kTimes = 3;

VirtualJob::Options options_of(uint32_t minor) {
  VirtualJob::Options options;
  options.mistake = [](JobConfig& job) {
    job.sizes = {kSizes[0], kSizes[1]};
    job.iterations = kTimes;
  };
  options.plugin = [minor](const NcclUniqueId& made) {
    std::vector<uint8_t> feed;
    for (uint64_t number = 0; number < 2 * kTimes; ++number) {
      FedOperation fed;
      fed.communicator = communicator_hash(made, {minor});
      fed.sequence = number;
      fed.operation.count = kSizes[number / kTimes] / 4;
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

/// What each operation takes in a job that lists them.
std::vector<Duration> listed_times(uint32_t minor) {
  Case c;
  c.sizes = "\"144000B\", \"36000B\"";
  c.more = "iterations = " + std::to_string(kTimes) + "\n";
  const ScratchFile id("id.of.listed");
  VirtualJob job(config_of_unlisted(c, minor, id), {});
  EXPECT_EQ(job.run(), "");
  std::vector<Duration> times;
  for (const CollectiveReport& o : job.report().collectives) times.push_back(o.modelled);
  return times;
}

TEST(NcclUnlisted, EachKindHasARowOfItsOwn) {
  for (const uint32_t minor : {23U, 28U, 30U}) {
    SCOPED_TRACE("2." + std::to_string(minor));
    const ScratchFile id("id.of.unlisted");
    const Config config = config_of_unlisted(case_of("fed"), minor, id);
    ASSERT_FALSE(config.jobs[0].listed);
    VirtualJob job(config, options_of(minor));
    ASSERT_EQ(job.run(), "");
    expect_right(job, true);
    const JobReport report = job.report();
    EXPECT_FALSE(report.listed);
    EXPECT_EQ(report.planned, 2 * kTimes);
    ASSERT_EQ(report.collectives.size(), 2 * kTimes);
    ASSERT_EQ(report.kinds.size(), 2U);
    EXPECT_EQ(report.kinds[0].text, "all_reduce ring simple of 144000 B");
    EXPECT_EQ(report.kinds[1].text, "all_reduce ring simple of 36000 B");
    const std::vector<Duration> listed = listed_times(minor);
    for (uint32_t i = 0; i < 2 * kTimes; ++i) {
      const CollectiveReport& o = report.collectives[i];
      EXPECT_EQ(o.bytes, kSizes[i / kTimes]);
      EXPECT_EQ(o.size_index, i / kTimes);
      EXPECT_EQ(o.iteration, i % kTimes);
      EXPECT_EQ(o.modelled, listed[i]);
      // The first one is not known before it is told.
      if (i > 0) {
        EXPECT_LT(std::abs((o.measured - o.modelled).ps()), o.modelled.ps() / 50) << i;
      }
    }
    for (const InferredReport& o : report.inferred->operations) EXPECT_FALSE(o.right);
    const std::string table = job_table(report);
    EXPECT_NE(table.find("what its programs do, 6 operations"), std::string::npos) << table;
    EXPECT_NE(table.find("# 36000 B: all_reduce ring simple of 36000 B, 3 times"),
              std::string::npos)
        << table;
  }
}

/// The guesses of a job that lists the same operations are as good.
TEST(NcclUnlisted, Inferred) {
  const ScratchFile id("id.of.guessed");
  const Config config = config_of_unlisted(case_of("inferred"), 28, id);
  VirtualJob::Options options = options_of(28);
  options.plugin = nullptr;
  options.mistake = [](JobConfig& job) {
    job.sizes = {kSizes[0]};
    job.iterations = 2 * kTimes;
  };
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  const JobReport report = job.report();
  ASSERT_EQ(report.inferred->lost, "");
  ASSERT_EQ(report.collectives.size(), 2 * kTimes);
  for (const CollectiveReport& o : report.collectives) {
    EXPECT_EQ(report.kinds[o.size_index].text, "all_reduce ring simple of 144000 B");
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
