// Jobs that a reference rank joins in virtual time, as configurations; runs of them, and their
// captures judged.
#pragma once

#include "ctrl/build/expected_messages.h"
#include "tests/ctrl_simulate_rig.h"
#include "tests/nccl_virtual/virtual_job.h"

namespace understudy::nccl_rank {

struct Case {
  std::string collective = "all_reduce";
  std::string algorithm = "ring", protocol = "simple";
  unsigned ranks = 4, channels = 2;
  std::string sizes = "\"200000B\"";
  std::string payload = "synthetic";
  unsigned real = 0;  ///< the reference rank's number
  std::string more = {};
};

inline std::string text_of(const Case& c, uint32_t minor, const std::string& join) {
  const std::string link = "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  const auto group = [&](const std::string& name, unsigned count) {
    return count == 0 ? ""
                      : "[[node]]\nname = \"" + name + "\"\ncount = " + std::to_string(count) +
                            "\n" + link;
  };
  const auto of_group = [](const std::string& name, unsigned count) {
    return count == 0 ? "" : count == 1 ? ", \"" + name + "\"" : ", \"" + name + "*\"";
  };
  const unsigned behind = c.ranks - 1 - c.real;
  return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n" + group("a", c.real) +
         "[[node]]\nname = \"gpu\"\nreal = true\n" + link + group("w", behind) +
         "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n[[job]]\nname = \"job\"\n"
         "collective = \"" +
         c.collective + "\"\nalgorithm = \"" + c.algorithm + "\"\nprotocol = \"" + c.protocol +
         "\"\nranks = [" + (of_group("a", c.real) + ", \"gpu\"" + of_group("w", behind)).substr(2) +
         "]\nsizes = [" + c.sizes + "]\nchannels = " + std::to_string(c.channels) +
         "\npayload = \"" + c.payload + "\"\nnccl = \"2." + std::to_string(minor) +
         "\"\njoin = { " + join + " }\ninterval = \"20ms\"\n" + c.more;
}

/// The id's way is a file, or `join`.
inline void play(const Case& c, uint32_t minor, VirtualJob::Options options = {},
                 std::string join = {}) {
  SCOPED_TRACE("2." + std::to_string(minor) + " " + c.collective + " " + c.algorithm + " " +
               c.protocol + ", " + std::to_string(c.ranks) + " ranks");
  const ScratchFile id("id");
  const ScratchFile capture("pcapng");
  if (join.empty()) join = "file = \"" + id.path() + "\"";
  const Config config = config_of(text_of(c, minor, join));
  if (testing::Test::HasFailure()) return;
  options.capture = capture.path();
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  const JobReport report = job.report();
  EXPECT_EQ(report.violations, 0u);
  EXPECT_EQ(report.collectives.size(), job.setup().operations.size());
  for (const CollectiveReport& operation : report.collectives) {
    if (report.inferred) continue;  // the first of a size is guessed, and late
    EXPECT_EQ(operation.size_mismatches, 0u);
    EXPECT_EQ(operation.lateness, Duration());
  }
  EXPECT_EQ(job.node().progress().violations, 0u);
  for (const CollectiveResult& result : job.node().progress().results) {
    EXPECT_EQ(result.wrong_elements, 0u);
    if (report.inferred) continue;
    EXPECT_EQ(result.size_mismatches, 0u);
  }
  if (report.inferred) {
    EXPECT_EQ(report.inferred->lost, "");
    EXPECT_EQ(job.node().progress().results.back().size_mismatches, 0u);
    return;
  }
  // Messages of the model are the job's, no others'.
  const bool model = !options.use_spares && job.node().queue_pairs() == 1;
  std::vector<std::string> unknown;
  expected_connections(config, &unknown);
  EXPECT_EQ(unknown.empty(), job.node().queue_pairs() == 1);
  Config found = config;  // whoever judges a capture is told what the search found
  found.jobs.front().search_channels = options.search_channels;
  const Analysis analysis = judged(options.capture, model ? &found : nullptr);
  expect_holds(analysis);
  if (model) {
    EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
  }
  if (options.use_spares) {
    EXPECT_FALSE(job.node().spares().empty());
  }
}

}  // namespace understudy::nccl_rank
