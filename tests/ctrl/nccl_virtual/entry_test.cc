// When emulated ranks enter operations beside a program that joined: as they would beside each
// other. Jobs in which ranks are late or compute take as long with one real rank as with none, with
// every rank packet by packet.
#include <cmath>

#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

constexpr unsigned kOperations = 8;

Case late_job(const std::string& keys) {
  Case c;
  c.channels = 1;
  c.rate = "100Gbit/s";
  c.latency = "500ns";
  c.sizes = "\"4MiB\"";
  c.interval = "30us";
  c.more = "iterations = " + std::to_string(kOperations) + "\n" + keys;
  return c;
}

/// From the first operation's end to the last one's, on rank 0.
Duration alone(const Case& c) {
  std::string text = "format = 1\n[[node]]\nname = \"w\"\ncount = " + std::to_string(c.ranks) +
                     "\n" + link_of(c) + "[[job]]\nname = \"job\"\ncollective = \"" + c.collective +
                     "\"\nalgorithm = \"" + c.algorithm + "\"\nranks = [\"w*\"]\nsizes = [" +
                     c.sizes + "]\nchannels = " + std::to_string(c.channels) + "\ninterval = \"" +
                     c.interval + "\"\nnccl = \"2.28\"\n" + c.more;
  const RunReport report = simulated(config_of(text));
  const auto& all = report.traffic->jobs.at(0).operations;
  EXPECT_EQ(all.size(), kOperations);
  // Operations of a job at rest follow each other evenly.
  return (all.back().start - all[2].start) / int64_t{kOperations - 3};
}

/// One real rank among emulated ones, which enter so.
Duration beside_program(const Case& c, const std::string& entry) {
  Case joined = c;
  joined.more += entry;
  Duration found;
  play(joined, 28, {}, {}, [&](const VirtualJob& job, const JobReport&) {
    const std::vector<CollectiveResult>& own = job.node().progress().results;
    found = (own.back().entry - own[2].entry) / int64_t{kOperations - 3};
  });
  return found;
}

double percent(Duration a, Duration b) { return 100 * std::abs(a.seconds() / b.seconds() - 1); }

std::string skew(unsigned rank, const char* delay) {
  return "skew = [ { rank = " + std::to_string(rank) + ", delay = \"" + delay + "\" } ]\n";
}

TEST(VirtualNcclEntry, RanksThatAreLateCountFromTheirOwnLastEnd) {
  const std::string slow =
      "compute = { before = \"80us\", after = \"10us\", slow = [ { rank = 2, factor = 1.5 } ] }\n";
  const std::string overlapped =
      "compute = { before = \"80us\", after = \"10us\", beside = \"20us\", overlap = true, "
      "slow = [ { rank = 3, factor = 1.5 } ] }\n";
  for (const std::string& keys : {std::string(), skew(0, "40us"), skew(2, "40us"),
                                  skew(1, "40us") + slow, slow, overlapped}) {
    SCOPED_TRACE(keys);
    const Case c = late_job(keys);
    const Duration expected = alone(c);
    for (const char* entry : {"", "entry = \"first_credit\"\n", "entry = \"scheduled\"\n"}) {
      EXPECT_LT(percent(beside_program(c, entry), expected), 0.1) << entry;
    }
  }
}

// Messages of emulated ranks go packet by packet there, and meet on NICs: who enters before the
// real rank is not to wait for its credit.
TEST(VirtualNcclEntry, SoDoTheyInTrees) {
  for (const std::string& keys : {skew(1, "60us"), skew(3, "60us")}) {
    Case c = late_job(keys);
    c.algorithm = "tree";
    EXPECT_LT(percent(beside_program(c, "entry = \"scheduled\"\n"), alone(c)), 0.1) << keys;
  }
}

// A program may take longer than the configuration says, and begins when it likes.
TEST(VirtualNcclEntry, WhatTheProgramTakesBesideAllTakeOrOnlyIt) {
  const Case c = late_job(skew(2, "40us"));
  const Duration none = alone(c);
  Case more = c;
  more.interval = "80us";  // 50 us more
  const Duration all = alone(more);
  VirtualJob::Options options;
  options.real_interval = Duration::us(80);
  for (const bool first_credit : {true, false}) {
    Case joined = c;
    joined.more += first_credit ? "entry = \"first_credit\"\n" : "entry = \"scheduled\"\n";
    Duration found;
    play(joined, 28, options, {}, [&](const VirtualJob& job, const JobReport&) {
      const std::vector<CollectiveResult>& own = job.node().progress().results;
      found = (own.back().entry - own[2].entry) / int64_t{kOperations - 3};
    });
    if (first_credit) {
      EXPECT_LT(percent(found, all), 0.1);
    } else {
      // Rank 2 is 40 us late in any case: the program's 50 us are 10 us more.
      EXPECT_LT(percent(found, none + Duration::us(10)), 0.5);
    }
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
