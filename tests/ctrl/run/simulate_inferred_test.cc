// Emulated ranks that know the communicator only, beside a reference node that plays the job.
#include <gtest/gtest.h>

#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

struct Job {
  std::string sizes = "\"3120000B\"";  ///< no whole chunk at its end
  std::string operations = "inferred";
  std::string more = "iterations = 3\n";
  unsigned ranks = 4;
  std::string collective = "all_reduce", algorithm = "ring";

  RunReport run() const {
    RingText ring;
    ring.ranks = ranks;
    ring.sizes = sizes;
    ring.job = "operations = \"" + operations + "\"\n" + more;
    std::string text = ring.text();
    const auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace("entry = \"scheduled\"", "entry = \"first_credit\"");
    replace("collective = \"all_reduce\"", "collective = \"" + collective + "\"");
    replace("algorithm = \"ring\"", "algorithm = \"" + algorithm + "\"");
    return simulated(config_of(text));
  }
};

/// What is repeated is known beforehand from its second time on: then times are those of a run that
/// was told.
TEST(Inferred, TimesAreThoseOfARunThatWasTold) {
  Job job;
  job.sizes = "\"4MiB\", \"40MiB\"";
  job.more = "iterations = 4\nchannels = 2\nstep_cost = \"1us\"\n";
  const RunReport inferred = job.run();
  job.operations = "told";
  job.more += "inner = \"times\"\n";  // as those of guesses
  const RunReport told = job.run();
  ASSERT_TRUE(inferred.jobs[0].inferred);
  EXPECT_FALSE(told.verdict.faithful);
  EXPECT_TRUE(told.verdict.not_judged);  // two channels share each NIC
  EXPECT_FALSE(told.jobs[0].inferred);
  const InferenceReport& found = *inferred.jobs[0].inferred;
  EXPECT_EQ(found.lost, "");
  ASSERT_EQ(found.operations.size(), 8u);
  ASSERT_EQ(inferred.jobs[0].collectives.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const InferredReport& o = found.operations[i];
    const CollectiveReport& a = told.jobs[0].collectives[i];
    const CollectiveReport& b = inferred.jobs[0].collectives[i];
    EXPECT_EQ(o.right, true) << o.operation;
    EXPECT_TRUE(o.unique) << o.operation;
    if (i % 4 == 0) {
      // Of a new operation the first messages are late, or have sizes of the one before.
      EXPECT_GT(o.late_messages + o.wrong_sizes, 0u) << i;
      EXPECT_GT(b.node_reported->ps(), a.node_reported->ps()) << i;
      EXPECT_FALSE(b.faithful) << i;
      continue;
    }
    EXPECT_EQ(o.late_messages, 0u) << i;
    EXPECT_EQ(o.wrong_sizes, 0u) << i;
    EXPECT_EQ(a.node_reported->ps(), b.node_reported->ps()) << i;
    EXPECT_TRUE(b.faithful) << i;
  }
}

TEST(Inferred, OperationsOfEveryKind) {
  struct Case {
    std::string collective, algorithm, protocol;
    unsigned ranks;
  };
  for (const Case& c :
       {Case{"all_reduce", "tree", "simple", 4}, Case{"all_reduce", "ring", "ll", 4},
        Case{"all_gather", "ring", "simple", 4}, Case{"reduce_scatter", "ring", "ll128", 3},
        Case{"all_gather", "pat", "simple", 4}, Case{"all_reduce", "tree", "ll128", 5}}) {
    SCOPED_TRACE(c.collective + " " + c.algorithm + " " + c.protocol);
    Job job;
    job.collective = c.collective;
    job.algorithm = c.algorithm;
    job.ranks = c.ranks;
    job.more += "protocol = \"" + c.protocol + "\"\n";
    const RunReport report = job.run();
    ASSERT_TRUE(report.jobs[0].inferred);
    const InferenceReport& found = *report.jobs[0].inferred;
    EXPECT_EQ(found.lost, "");
    EXPECT_EQ(report.jobs[0].collectives.size(), 3u) << "the real node waits for ever";
    ASSERT_EQ(found.operations.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const InferredReport& o = found.operations[i];
      EXPECT_EQ(o.right, true) << i << ": " << o.operation;
      EXPECT_TRUE(i == 0 || o.wrong_sizes == 0) << i << ": " << o.operation;
      EXPECT_EQ(o.unique, o.confidence == 1) << i << ": " << o.operation;
      EXPECT_EQ(o.unique, o.explanations == 1u) << i << ": " << o.operation;
    }
  }
}

/// An all-gather and a reduce-scatter look alike; the configuration names the former.
TEST(Inferred, WhatElseItMayHaveBeenIsSaid) {
  Job job;
  job.collective = "all_gather";
  const RunReport report = job.run();
  for (const InferredReport& o : report.jobs[0].inferred->operations) {
    EXPECT_FALSE(o.unique);
    EXPECT_LT(o.confidence, 1);
    EXPECT_NE(o.other.find("reduce_scatter ring simple"), std::string::npos) << o.other;
  }
}

/// Small operations use fewer channels.
TEST(Inferred, OperationsOfOtherChannels) {
  Job job;
  job.sizes = "\"8B\", \"64KiB\", \"1MiB\"";
  job.more = "iterations = 3\nwarmup = 1\nchannels = 2\n";
  const RunReport report = job.run();
  const InferenceReport& found = *report.jobs[0].inferred;
  EXPECT_EQ(found.lost, "");
  ASSERT_EQ(found.operations.size(), 12u);
  for (const InferredReport& o : found.operations) EXPECT_EQ(o.right, true) << o.operation;
}

}  // namespace
}  // namespace understudy
