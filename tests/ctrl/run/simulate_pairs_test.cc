// Sends and receives beside emulated ranks that are told them by a feed, or infer them, and a
// reference node that plays them.
#include <gtest/gtest.h>

#include <random>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

struct Job {
  std::string collective = "all_to_all";
  std::vector<uint64_t> sizes = {3120000};
  std::string more = {};
  unsigned ranks = 4, gpus = 1, channels = 1, root = 0;

  RunReport run(const std::string& operations) const {
    RingText ring;
    ring.ranks = ranks;
    ring.sizes = "";
    for (const uint64_t bytes : sizes) {
      ring.sizes += (ring.sizes.empty() ? "\"" : ", \"") + std::to_string(bytes) + "B\"";
    }
    ring.job = "operations = \"" + operations +
               "\"\ninner = \"times\"\niterations = 3\ngpus = " + std::to_string(gpus) +
               "\nchannels = " + std::to_string(channels) + "\n" + more;
    if (collective == "gather" || collective == "scatter") {
      ring.job += "root = " + std::to_string(root) + "\n";
    }
    std::string text = ring.text();
    const auto replace = [&](const std::string& from, const std::string& to) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
        text.replace(at, from.size(), to);
      }
    };
    replace("entry = \"scheduled\"", "entry = \"first_credit\"");
    replace("collective = \"all_reduce\"", "collective = \"" + collective + "\"");
    replace("algorithm = \"ring\"\n", "");
    if (sizes.empty()) replace("sizes = []\n", "");
    replace("[[node]]\n", "[[node]]\ngpus = " + std::to_string(gpus) + "\n");
    return simulated(config_of(text));
  }
};

std::string describe(const Job& job) {
  std::string text = job.collective + ", " + std::to_string(job.ranks) + " x " +
                     std::to_string(job.gpus) + " ranks, " + std::to_string(job.channels) +
                     " channels, root " + std::to_string(job.root) + ":";
  for (const uint64_t bytes : job.sizes) text += " " + std::to_string(bytes);
  return text;
}

/// Operations whose every size the wire tells: a rank sends as much as it receives, or messages
/// come alone.
Job drawn(std::mt19937& random) {
  const auto draw = [&](uint64_t least, uint64_t most) {
    return least + random() % (most - least + 1);
  };
  Job job;
  constexpr const char* kKinds[] = {"send_recv", "all_to_all", "gather", "scatter"};
  const uint64_t kind = draw(0, 3);
  job.collective = kKinds[kind];
  job.ranks = static_cast<unsigned>(draw(2, 6));
  job.gpus = draw(0, 3) == 0 ? 2 : 1;
  job.channels = 1u << draw(0, 2);
  const unsigned all = job.ranks * job.gpus;
  job.root = draw(0, 1) == 0 ? 0 : static_cast<unsigned>(draw(0, all - 1));
  job.sizes.clear();
  for (uint64_t i = draw(1, 3); i > 0; --i) {
    const uint64_t most = kind < 2 ? 20 : 13;
    uint64_t bytes = uint64_t{4} << draw(0, most - 1);
    if (draw(0, 1) == 0) bytes = draw(1, uint64_t{1} << draw(2, most)) * 4;
    job.sizes.push_back(kind == 0 ? bytes : bytes * all);
  }
  return job;
}

TEST(Pairs, DrawnOperationsAreFedAndInferred) {
  std::mt19937 random(11);
  for (unsigned i = 0; i < 60; ++i) {
    const Job job = drawn(random);
    SCOPED_TRACE(std::to_string(i) + ": " + describe(job));
    const auto told = job.run("told").jobs[0].collectives;
    // Whether the emulated ranks have more to do than the real ones see.
    const bool others =
        (job.collective == "gather" || job.collective == "scatter") && job.root >= job.gpus;
    for (const std::string way : {"fed", "inferred"}) {
      SCOPED_TRACE(way);
      const bool fed = way == "fed";
      const RunReport report = job.run(way);
      const InferenceReport& found = *report.jobs[0].inferred;
      EXPECT_EQ(found.lost, "");
      EXPECT_EQ(report.jobs[0].violations, 0u);
      const auto& collectives = report.jobs[0].collectives;
      ASSERT_EQ(collectives.size(), told.size());
      ASSERT_EQ(found.operations.size(), told.size());
      for (size_t k = 0; k < told.size(); ++k) {
        const InferredReport& o = found.operations[k];
        EXPECT_EQ(o.right, true) << k << ": " << o.operation;
        if (!fed && k % 3 == 0) continue;  // it was not known beforehand
        EXPECT_EQ(o.wrong_sizes, 0u) << k;
        // Ranks of a node that are not together begin an operation before another one has ended.
        if (!fed && job.gpus > 1) continue;
        EXPECT_EQ(o.late_messages, 0u) << k;
        EXPECT_TRUE(collectives[k].faithful) << k;
        if (others) continue;
        const Duration expected = *told[k].node_reported;
        // Credits leave ahead, beside messages: eight of 146 bytes on each connection before the
        // first operation.
        const Duration ahead =
            k == 0 ? Duration::ns(117) * 8 * job.channels * job.ranks * job.gpus * job.gpus
                   : Duration::us(1);
        EXPECT_LE(*collectives[k].node_reported, expected + expected / 100 + ahead) << k;
        EXPECT_GE(*collectives[k].node_reported, expected - expected / 100) << k;
      }
    }
    if (HasFailure()) return;
  }
}

/// To the picosecond.
TEST(Pairs, RepeatedOnesTakeWhatTheyTakeInARunThatWasTold) {
  Job job;
  job.sizes = {4 * 52, 4 * 780000, 4 * 1048576};
  const auto told = job.run("told").jobs[0].collectives;
  const RunReport report = job.run("inferred");
  ASSERT_EQ(report.jobs[0].collectives.size(), 9u) << report.jobs[0].inferred->lost;
  for (size_t k = 0; k < 9; ++k) {
    EXPECT_EQ(report.jobs[0].inferred->operations[k].right, true) << k;
    if (k % 3 == 0) continue;
    EXPECT_EQ(report.jobs[0].inferred->operations[k].late_messages, 0u) << k;
    EXPECT_EQ(report.jobs[0].collectives[k].node_reported->ps(), told[k].node_reported->ps()) << k;
  }
}

/// Of more than eight rounds, whose later ones wait for the ones before: while the size is not
/// known messages leave before they should, and the emulated ranks end later than the real one.
TEST(Pairs, ManyRounds) {
  Job job;
  job.ranks = 12;
  job.sizes = {12 * 52, 12 * 780000, 12 * 1048576};
  const auto told = job.run("told").jobs[0].collectives;
  const RunReport report = job.run("inferred");
  ASSERT_EQ(report.jobs[0].collectives.size(), 9u) << report.jobs[0].inferred->lost;
  for (size_t k = 0; k < 9; ++k) {
    EXPECT_EQ(report.jobs[0].inferred->operations[k].right, true) << k;
    if (k % 3 != 2) continue;
    EXPECT_EQ(report.jobs[0].inferred->operations[k].late_messages, 0u) << k;
    const Duration expected = *told[k].node_reported;
    EXPECT_LE(*report.jobs[0].collectives[k].node_reported, expected + expected / 1000) << k;
    EXPECT_GE(*report.jobs[0].collectives[k].node_reported, expected - expected / 1000) << k;
  }
}

/// Between emulated ranks as many bytes as the real one sends at the same distance.
TEST(Pairs, SizesOfTheirOwn) {
  Job job;
  job.collective = "all_to_all_v";
  job.sizes.clear();
  job.more =
      "matrix = [[\"0B\", \"400KB\", \"52B\", \"70000B\"], [\"8B\", \"0B\", \"400KB\", \"52B\"], "
      "[\"1KiB\", \"70000B\", \"0B\", \"400KB\"], [\"28KiB\", \"52B\", \"70000B\", \"0B\"]]\n";
  const auto told = job.run("told").jobs[0].collectives;
  const RunReport report = job.run("inferred");
  ASSERT_EQ(report.jobs[0].collectives.size(), 3u) << report.jobs[0].inferred->lost;
  for (size_t k = 0; k < 3; ++k) {
    const InferredReport& o = report.jobs[0].inferred->operations[k];
    EXPECT_EQ(o.right, true) << k;
    EXPECT_TRUE(o.unique) << k;
    EXPECT_EQ(o.operation, "sends of 12 pairs of ranks, 1439860 B");
    if (k == 0) continue;
    EXPECT_EQ(report.jobs[0].collectives[k].node_reported->ps(), told[k].node_reported->ps()) << k;
  }
}

/// The last message of many to a rank that sends nothing is taken for a whole one.
TEST(Pairs, ALastMessageIsNotKnown) {
  Job job;
  job.collective = "gather";
  const RunReport report = job.run("inferred");
  const InferenceReport& found = *report.jobs[0].inferred;
  EXPECT_EQ(found.lost, "");
  ASSERT_EQ(found.operations.size(), 3u);
  for (const InferredReport& o : found.operations) {
    EXPECT_EQ(o.operation, "gather of 786432 B, root 0");
    EXPECT_EQ(o.right, false);
    EXPECT_FALSE(o.unique);
  }
  EXPECT_FALSE(report.verdict.faithful);
  job.sizes = {4 * 786432};
  const RunReport whole = job.run("inferred");
  for (const InferredReport& o : whole.jobs[0].inferred->operations) EXPECT_EQ(o.right, true);
}

/// Messages of operations that run into each other have sizes that no send has. That is said, every
/// credit is answered, and the run is not faithful.
TEST(Pairs, LosesTrackOfWhatItCannotTellApart) {
  Job job;
  job.collective = "scatter";
  job.sizes = {14208, 27296992, 1048576};
  job.gpus = 2;
  job.channels = 4;
  const RunReport report = job.run("inferred");
  const InferenceReport& found = *report.jobs[0].inferred;
  EXPECT_EQ(found.lost, "sends and receives of no size");
  EXPECT_FALSE(report.verdict.faithful);
  const std::vector<std::string> reasons = {
      "job 'ring': 6 of 9 operations were done",
      "job 'ring': inference lost track, and every credit was answered at once: " + found.lost};
  EXPECT_EQ(report.verdict.reasons, reasons);
  EXPECT_FALSE(report.jobs[0].failed);
  EXPECT_EQ(report.jobs[0].violations, 0u);
}

}  // namespace
}  // namespace understudy
