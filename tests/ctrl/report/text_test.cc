// What is written: JSON byte by byte, the table, the verdict's lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ctrl/report/json.h"
#include "ctrl/report/real_pace.h"
#include "ctrl/report/table.h"
#include "ctrl/report/text.h"
#include "tests/ctrl/report/sample.h"

namespace understudy {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

RunReport judged(RunReport report) {
  judge(report);
  return report;
}

std::string sample(const std::string& name) {
  return read(std::filesystem::path(UNDERSTUDY_TEST_DATA) / "report" / name);
}

TEST(DurationText, FourDigitsInTheUnitThatSuits) {
  EXPECT_EQ(duration_text(Duration()), "0 s");
  EXPECT_EQ(duration_text(Duration::ps(7)), "7 ps");
  EXPECT_EQ(duration_text(Duration::ps(1500)), "1.500 ns");
  EXPECT_EQ(duration_text(Duration::us(50'300)), "50.30 ms");
  EXPECT_EQ(duration_text(Duration::us(999'960)), "1.000 s");
  EXPECT_EQ(duration_text(Duration::ms(1204)), "1.204 s");
  EXPECT_EQ(duration_text(Duration::s(3600)), "3600.0 s");
  EXPECT_EQ(duration_text(Duration::ns(-2500)), "-2.500 us");
}

TEST(SizeText, LargestUnitThatDivides) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1500), "1500 B");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(3 << 19), "1536 KiB");
  EXPECT_EQ(size_text(uint64_t{4096} << 30), "4096 GiB");
}

// The files are the schema test's input; a change of either is a change of the format.
TEST(Json, IsTheSampleByteByByte) {
  EXPECT_EQ(report_json(judged(full_report())), sample("full.json"));
  EXPECT_EQ(report_json(judged(slowdown_report())), sample("slowdown.json"));
  EXPECT_EQ(report_json(judged(minimal_report())), sample("minimal.json"));
}

TEST(Json, ForeignBytesAreReplaced) {
  RunReport report = minimal_report();
  report.services.push_back({"w0", 18515, "auto", "10.9.0.200", {}, {}, "got \xff\xfe"});
  EXPECT_THAT(report_json(judged(report)), HasSubstr("got \xef\xbf\xbd\xef\xbf\xbd"));
}

TEST(Write, ReplacesTheFileAndLeavesNothingElse) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("report-test-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::filesystem::path path = folder / "r.json";
  const RunReport report = judged(minimal_report());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(write_report(report, path));
  EXPECT_EQ(read(path), report_json(report));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(Write, ErrorNamesTheFile) {
  const auto result = write_report(minimal_report(), "/nonexistent/r.json");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().text, "/nonexistent/r.json: No such file or directory");
}

TEST(Table, SaysWhenTheModelIsOfPackets) {
  JobReport job = judged(full_report()).jobs[0];
  EXPECT_THAT(job_table(job), Not(HasSubstr("# model: ")));
  job.model = "packets";
  EXPECT_THAT(job_table(job), HasSubstr("# model: all ranks packet by packet"));
}

TEST(Table, ColumnsOfNcclTestsAndTheModels) {
  EXPECT_EQ(
      job_table(judged(full_report()).jobs[0]),
      "# job 'allreduce': all_reduce, ring, simple, 4 ranks, payload exact\n"
      "# time: as the real node's own program measured it\n"
      "#       size         count    type   redop         time      algbw      busbw        model"
      "      diff   #wrong  verdict\n"
      "#        (B)    (elements)                         (us)     (GB/s)     (GB/s)         (us)"
      "       (%)           \n"
      "        4096          1024   float     sum       106.00    0.03864    0.05796       100.00"
      "     +6.00        0  faithful\n"
      "       65536         16384   float     sum       106.00    0.61826    0.92740       100.00"
      "     +6.00        0  NOT FAITHFUL\n"
      "#  iteration   operations      time (us)      last rank        compute        exposed"
      "    of them\n"
      "        4096            1          20.00          21.00           5.00          15.00"
      "          1\n");
}

TEST(Table, SaysWhoMeasured) {
  JobReport job = sample_job();
  EXPECT_THAT(job_table(job), HasSubstr("as the emulated environment measured it"));
  job.collectives[1].node_reported = job.collectives[2].node_reported = Duration::us(1);
  EXPECT_THAT(job_table(job), HasSubstr("where it reported one"));
}

TEST(Pace, NamesWhoWaitsForWhom) {
  RunReport report = full_report();
  for (CollectiveReport& c : report.jobs[0].collectives) {
    c.modelled = Duration::us(100);
    c.measured = Duration::us(c.warmup ? 9000 : 400);
    c.lateness = Duration::us(20);
  }
  EXPECT_DOUBLE_EQ(real_pace(report.jobs[0]).factor(), 4);
  EXPECT_DOUBLE_EQ(real_pace(report.jobs[0]).waited(), 0.7);
  const std::string said =
      "# pace: operations took 4.00 times as long as modelled, of which emulated ranks were late "
      "for "
      "5.0 % at most: for 70 % of the time they waited for the real nodes: for their programs, "
      "their "
      "NICs, or a machine that is busy\n";
  EXPECT_THAT(report_table(judged(report)), HasSubstr(said));
  report.others = true;
  EXPECT_THAT(report_table(judged(report)), HasSubstr("; or for what else is on the network"));
  report.virtual_clock = true;
  EXPECT_THAT(report_table(judged(report)), Not(HasSubstr("# pace")));
  report.virtual_clock = false;
  for (CollectiveReport& c : report.jobs[0].collectives) c.measured = Duration::us(130);
  EXPECT_THAT(report_table(judged(report)), Not(HasSubstr("# pace")));
}

TEST(Table, SizeThatWasNotReached) {
  JobReport job = sample_job();
  job.collectives.resize(4);
  EXPECT_THAT(job_table(job), EndsWith("-         -      N/A  NOT DONE\n"));
}

TEST(Verdict, FirstReasonsAndHowManyMore) {
  RunReport report = minimal_report();
  EXPECT_EQ(verdict_text(judged(report), 3), "# verdict: nothing ran that could be judged\n");
  report.jobs.push_back(sample_job());
  EXPECT_EQ(verdict_text(judged(report), 3), "# verdict: faithful\n");
  for (CollectiveReport& c : report.jobs[0].collectives) c.lateness = Duration::ms(1);
  const std::string text = verdict_text(judged(report), 3);
  EXPECT_THAT(text, HasSubstr("# verdict: NOT FAITHFUL\n#   job 'allreduce', 4 KiB"));
  EXPECT_THAT(text, EndsWith("#   and 1 more reason in the report\n"));
}

}  // namespace
}  // namespace understudy
