// Jobs that a reference rank joins in virtual time, as configurations; runs of them, and their
// captures judged.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "ctrl/schedule/expected_messages.h"
#include "tests/ctrl/run/simulate_rig.h"
#include "tests/rigs/nccl_virtual/virtual_job.h"

namespace understudy::nccl_rank {

struct Case {
  std::string collective = "all_reduce";
  std::string algorithm = "ring", protocol = "simple";
  unsigned ranks = 4, channels = 2;
  std::string sizes = "\"200000B\"";  ///< empty: whatever the real rank does
  std::string payload = "synthetic";
  unsigned real = 0;  ///< the reference rank's number
  std::string more = {};
  std::vector<unsigned> reals = {};   ///< instead of `real`: of several
  std::string latency = "1us";        ///< of a link
  std::string rate = "10Gbit/s";      ///< the same
  std::vector<unsigned> played = {};  ///< of `reals`: those on the emulator's reference nodes
  std::string interval = "20ms";
  bool fast = false;  ///< messages take no time on links, and so do not meet there
};

/// Nodes and ports, and the ranks in their order.
struct Nodes {
  std::string text, ranks;
};
inline std::string link_of(const Case& c) {
  return "link = { rate = \"" + c.rate + "\", latency = \"" + c.latency + "\" }\n";
}
inline Nodes nodes_of(const Case& c) {
  const std::string link = link_of(c);
  Nodes nodes;
  for (unsigned rank = 0; rank < c.ranks; ++rank) {
    const std::string name = "\"n" + std::to_string(rank) + "\"";
    const bool real = std::ranges::find(c.reals, rank) != c.reals.end();
    const bool played = std::ranges::find(c.played, rank) != c.played.end();
    const std::string kernel = "real = { kind = \"kernel\", program = \"x\" }\n";
    nodes.text += "[[node]]\nname = " + name + "\n" + link;
    if (real) nodes.text += played || c.played.empty() ? "real = true\n" : kernel;
    if (real) nodes.text += "[[port]]\nreal = " + name + "\ndevice = \"virtual\"\n";
    nodes.ranks += (rank == 0 ? "" : ", ") + name;
  }
  return nodes;
}

inline Nodes nodes_of_one(const Case& c) {
  const std::string link = link_of(c);
  const auto group = [&](const std::string& name, unsigned count) {
    return count == 0 ? ""
                      : "[[node]]\nname = \"" + name + "\"\ncount = " + std::to_string(count) +
                            "\n" + link;
  };
  const auto of_group = [](const std::string& name, unsigned count) {
    return count == 0 ? "" : count == 1 ? ", \"" + name + "\"" : ", \"" + name + "*\"";
  };
  const unsigned behind = c.ranks - 1 - c.real;
  return {group("a", c.real) + "[[node]]\nname = \"gpu\"\nreal = true\n" + link +
              group("w", behind) + "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n",
          (of_group("a", c.real) + ", \"gpu\"" + of_group("w", behind)).substr(2)};
}

inline std::string text_of(const Case& c, uint32_t minor, const std::string& join) {
  const Nodes nodes = c.reals.empty() ? nodes_of_one(c) : nodes_of(c);
  return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n" + nodes.text +
         "[[job]]\nname = \"job\"\ncollective = \"" + c.collective + "\"\nalgorithm = \"" +
         c.algorithm + "\"\nprotocol = \"" + c.protocol + "\"\nranks = [" + nodes.ranks + "]\n" +
         (c.sizes.empty() ? "" : "sizes = [" + c.sizes + "]\n") +
         "channels = " + std::to_string(c.channels) + "\npayload = \"" + c.payload +
         "\"\nnccl = \"2." + std::to_string(minor) + "\"\njoin = { " + join + " }\ninterval = \"" +
         c.interval + "\"\n" + c.more;
}

inline Config config_of_case(const Case& c, const std::string& text) {
  Config config = config_of(text);
  for (NodeConfig& node : config.nodes) {
    if (c.fast) node.nics[0].link_rate = Rate::bits_per_second(uint64_t{1} << 62);
  }
  return config;
}

/// All that real ranks have to say of a run that went well.
inline void expect_right(const VirtualJob& job, bool inferred) {
  for (size_t real = 0; real < job.nodes(); ++real) {
    SCOPED_TRACE("real rank " + std::to_string(real));
    const CollectiveProgress& progress = job.node(real).progress();
    EXPECT_EQ(progress.violations, 0u);
    for (const CollectiveResult& result : progress.results) {
      EXPECT_EQ(result.wrong_elements, 0u);
      if (!inferred) {
        EXPECT_EQ(result.size_mismatches, 0u);
      }
    }
    EXPECT_EQ(progress.results.back().size_mismatches, 0u);
  }
}

/// The id's way is a file, or `join`. `look`: at a job whose operations were told, at its end.
using Look = std::function<void(const VirtualJob& job, const JobReport& report)>;
inline void play(const Case& c, uint32_t minor, VirtualJob::Options options = {},
                 std::string join = {}, const Look& look = {}) {
  SCOPED_TRACE("2." + std::to_string(minor) + " " + c.collective + " " + c.algorithm + " " +
               c.protocol + ", " + std::to_string(c.ranks) + " ranks");
  const ScratchFile id("id");
  const ScratchFile capture("pcapng");
  if (join.empty()) join = "file = \"" + id.path() + "\"";
  const Config config = config_of_case(c, text_of(c, minor, join));
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
  expect_right(job, report.inferred.has_value());
  if (report.inferred) {
    EXPECT_EQ(report.inferred->lost, "");
    return;
  }
  // Messages of the model are the job's, no others'.
  const bool model = !options.use_spares && job.node().queue_pairs() == 1 && !c.fast;
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
  if (look) look(job, report);
}

/// An operation of all real nodes.
struct Took {
  Duration all;   ///< from the first entry to the last end
  Duration skew;  ///< from the first entry to the last one
};
inline Took took(const VirtualJob& job, size_t operation) {
  std::vector<const CollectiveProgress*> nodes = job.played();
  nodes.erase(nodes.begin());  // the emulated ranks'
  for (size_t real = 0; real < job.nodes(); ++real) nodes.push_back(&job.node(real).progress());
  Time first = Time::never(), last, end;
  for (const CollectiveProgress* node : nodes) {
    const CollectiveResult& own = node->results[operation];
    first = std::min(first, own.entry);
    last = std::max(last, own.entry);
    end = std::max(end, own.end);
  }
  return {end - first, last - first};
}

/// As long as where the same nodes know of each other without a bootstrap (simulate). There emulated
/// ranks' first credits leave when the real nodes begin; here they are there by then. There all enter
/// at once; here ranks on reference nodes may be ahead of programs.
inline Look as_simulated(const Case& c, uint32_t minor) {
  return [c, minor](const VirtualJob& job, const JobReport& report) {
    constexpr double ahead = 4e6;  // ps: a way and back
    Case alone = c;
    alone.played.clear();
    std::string text = text_of(alone, minor, "file = \"unused\"");
    text += "entry = \"first_credit\"\n";
    const RunReport expected = simulated(config_of_case(alone, text));
    ASSERT_EQ(report.collectives.size(), expected.jobs.at(0).collectives.size());
    for (size_t i = 0; i < report.collectives.size(); ++i) {
      const auto simulated = static_cast<double>(
          expected.jobs[0].collectives[i].node_reported.value_or(Duration()).ps());
      const Took here = took(job, i);
      // Who begins later finds the others' first messages there.
      const Duration skew = c.played.empty() ? Duration() : here.skew;
      const double share = c.played.empty() ? 0.01 : 0.015;
      const double most = std::max(ahead, share * simulated);
      EXPECT_GE(static_cast<double>(here.all.ps()), simulated - most) << i;
      EXPECT_LE(static_cast<double>((here.all - skew).ps()), simulated + most) << i;
    }
  };
}

/// How many of the lines hold these words.
inline size_t times_said(const std::vector<std::string>& lines, const std::string& words) {
  return static_cast<size_t>(std::ranges::count_if(
      lines, [&](const std::string& line) { return line.find(words) != std::string::npos; }));
}

}  // namespace understudy::nccl_rank
