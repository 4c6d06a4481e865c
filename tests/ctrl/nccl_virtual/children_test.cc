// Jobs on child communicators (child_of) in virtual time: reference ranks split or shrink what they
// have joined, and carry out operations there, too. These have right values, and take the time of a
// job of their own.
#include "ctrl/peers/feed.h"
#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

using Split = VirtualJob::Options::Split;

/// A [[job]] on a child, behind those of the case.
std::string child(const std::string& name, const std::string& members, const std::string& sizes,
                  const std::string& more = {}) {
  return "[[job]]\nname = \"" + name + "\"\nchild_of = \"job\"\nmembers = " + members +
         "\ncollective = \"all_reduce\"\nsizes = [" + sizes + "]\n" + more;
}

Split by(int divisor) {
  return {.color = [divisor](int rank) { return rank / divisor; }};
}

/// All operations of the child have right values, and were in time.
void expect_child(const VirtualJob& job, size_t number, size_t operations) {
  SCOPED_TRACE("job " + std::to_string(number));
  const JobReport report = job.report(number);
  EXPECT_EQ(report.failure, "");
  EXPECT_EQ(report.violations, 0U);
  ASSERT_EQ(report.collectives.size(), operations);
  for (const CollectiveReport& c : report.collectives) {
    EXPECT_EQ(c.size_mismatches, 0U);
    EXPECT_EQ(c.lateness, Duration());
  }
  const auto progress = job.child_progress(number);
  ASSERT_FALSE(progress.empty());
  for (const CollectiveProgress* real : progress) {
    EXPECT_EQ(real->finished, operations);
    EXPECT_EQ(real->violations, 0U);
    for (const CollectiveResult& result : real->results) {
      EXPECT_EQ(result.wrong_elements, 0U);
      EXPECT_EQ(result.size_mismatches, 0U);
    }
  }
}

/// One real rank, whose half of the communicator does a ring all-reduce of its own.
TEST(NcclChildJobs, OneSplit) {
  for (uint32_t minor = 18; minor <= 31; ++minor) {
    Case c;
    c.ranks = 8;
    c.real = minor % 8;
    c.payload = "exact";
    c.sizes = "\"100004B\"";
    c.more = child("half", "\"/4\"", "\"256KiB\", \"40004B\"", "iterations = 2\n");
    VirtualJob::Options options;
    options.splits = {by(4)};
    play(c, minor, options, {},
         [](const VirtualJob& job, const JobReport&) { expect_child(job, 1, 4); });
    if (testing::Test::HasFailure()) return;
  }
}

/// Each half has real ranks, which are apart; one [[job]] is for both.
TEST(NcclChildJobs, SeveralColours) {
  for (const uint32_t minor : {18U, 22U, 23U, 28U, 31U}) {
    Case c;
    c.ranks = 8;
    c.reals = {1, 3, 6};
    c.payload = "exact";
    c.sizes = "\"64B\"";
    c.channels = 1;
    c.more = child("half", "\"/4\"", "\"100004B\"");
    VirtualJob::Options options;
    options.splits = {by(4)};
    play(c, minor, options, {}, [](const VirtualJob& job, const JobReport&) {
      expect_child(job, 1, 1);
      expect_child(job, 2, 1);
      EXPECT_EQ(job.report(1).parent_ranks, (std::vector<uint32_t>{0, 1, 2, 3}));
      EXPECT_EQ(job.report(2).name, "half/1");
      EXPECT_EQ(job.child_progress(1).size(), 2U);
    });
    if (testing::Test::HasFailure()) return;
  }
}

/// Ranks in another order than their parent's, two children of the same ranks, and a child's child.
TEST(NcclChildJobs, KeysAndSeveralSplits) {
  for (const uint32_t minor : {20U, 22U, 25U, 30U}) {
    Case c;
    c.ranks = 6;
    c.real = 2;
    c.payload = "exact";
    c.sizes = "\"64KiB\"";
    c.more = child("backwards", "[5, 4, 3, 2, 1, 0]", "\"40004B\"") +
             child("again", "\"all\"", "\"64B\", \"128KiB\"") +
             child("four", "[[3, 2, 1, 0], [5, 4]]", "\"4000B\"") +
             "[[job]]\nname = \"two\"\nchild_of = \"four\"\nmembers = \"/2\"\ncollective = "
             "\"all_reduce\"\nsizes = [\"200000B\"]\n";
    VirtualJob::Options options;
    options.splits = {
        {.color = [](int) { return 0; }, .key = [](int rank) { return -rank; }},
        {.color = [](int) { return 7; }},
        {.color = [](int rank) { return rank / 4; }, .key = [](int rank) { return -rank; }},
        {.color = [](int rank) { return rank / 2; }, .of = 2}};
    play(c, minor, options, {}, [](const VirtualJob& job, const JobReport&) {
      expect_child(job, 1, 1);
      expect_child(job, 2, 2);
      expect_child(job, 3, 1);
      expect_child(job, 4, 1);
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclChildJobs, Shrink) {
  for (uint32_t minor = 27; minor <= 31; ++minor) {
    Case c;
    c.ranks = 6;
    c.real = 2;
    c.payload = "exact";
    c.sizes = "\"64KiB\"";
    c.more = child("left", "[0, 2, 3, 5]", "\"100004B\"");
    VirtualJob::Options options;
    options.splits = {{.color = {}, .excluded = {1, 4}}};
    play(c, minor, options, {},
         [](const VirtualJob& job, const JobReport&) { expect_child(job, 1, 1); });
    if (testing::Test::HasFailure()) return;
  }
}

struct Kind {
  const char* collective;
  const char* algorithm;
  const char* protocol;
  uint32_t from = 18;  ///< release
};
constexpr Kind kKinds[] = {
    {"all_reduce", "tree", "simple"},     {"all_reduce", "ring", "ll"},
    {"all_reduce", "ring", "ll128"},      {"all_gather", "ring", "simple"},
    {"reduce_scatter", "ring", "simple"}, {"broadcast", "ring", "simple"},
    {"all_gather", "pat", "simple", 23},  {"send_recv", "ring", "simple", 22},
    {"all_to_all", "ring", "simple", 22},
};

/// The parent's operations are of another algorithm; connections come when they are first wanted.
TEST(NcclChildJobs, AnyCollective) {
  for (const uint32_t minor : {22U, 25U, 28U, 30U}) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from) continue;
      SCOPED_TRACE(std::string(kind.collective) + " " + kind.algorithm + " " + kind.protocol);
      Case c;
      c.ranks = 8;
      c.real = 5;
      c.payload = "exact";
      c.sizes = "\"64KiB\"";
      const std::string text =
          "[[job]]\nname = \"half\"\nchild_of = \"job\"\nmembers = \"/4\"\n"
          "collective = \"" +
          std::string(kind.collective) + "\"\nalgorithm = \"" + kind.algorithm +
          "\"\nprotocol = \"" + kind.protocol + "\"\nsizes = [\"288000B\", \"32B\"]\n";
      c.more = text;
      VirtualJob::Options options;
      options.splits = {by(4)};
      options.lazy = minor % 2 == 0;
      play(c, minor, options, {},
           [](const VirtualJob& job, const JobReport&) { expect_child(job, 1, 2); });
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Operations of both communicators meet on the NICs; all values are right.
TEST(NcclChildJobs, BesideTheParentsOperations) {
  for (const uint32_t minor : {22U, 28U, 30U}) {
    Case c;
    c.ranks = 8;
    c.reals = {0, 5};
    c.channels = 1;
    c.payload = "exact";
    c.sizes = "\"1MiB\"";
    c.interval = "0ms";
    c.more = "iterations = 3\n" + child("half", "\"/4\"", "\"1MiB\"", "iterations = 3\n");
    VirtualJob::Options options;
    options.splits = {by(4)};
    options.children_beside = true;
    play(c, minor, options, {}, [](const VirtualJob& job, const JobReport&) {
      expect_child(job, 1, 3);
      expect_child(job, 2, 3);
    });
    if (testing::Test::HasFailure()) return;
  }
}

/// As long as where all ranks of such a communicator are carried out packet by packet, alone.
TEST(NcclChildJobs, TakeTheirOwnTime) {
  for (const Kind& kind :
       {Kind{"all_reduce", "ring", "simple"}, Kind{"all_reduce", "tree", "simple"},
        Kind{"all_to_all", "ring", "simple"}}) {
    SCOPED_TRACE(std::string(kind.collective) + " " + kind.algorithm);
    Case c;
    c.ranks = 8;
    c.real = 1;
    c.rate = "1Gbit/s";
    c.sizes = "\"64B\"";
    c.more = "[[job]]\nname = \"half\"\nchild_of = \"job\"\nmembers = \"/4\"\ncollective = \"" +
             std::string(kind.collective) + "\"\nalgorithm = \"" + kind.algorithm +
             "\"\nsizes = [\"1MiB\"]\n";
    std::string alone =
        "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n[[node]]\nname = "
        "\"n\"\ncount = 4\n" +
        link_of(c) + "[[job]]\nname = \"job\"\ncollective = \"" + kind.collective +
        "\"\nalgorithm = \"" + kind.algorithm +
        "\"\nranks = [\"n*\"]\nsizes = [\"1MiB\"]\nchannels = 2\n";
    SimulateOptions simulate;
    simulate.timeline = true;
    const auto report = compile_and_simulate(config_of(alone), simulate);
    ASSERT_TRUE(report) << report.error().text;
    Duration expected;
    for (const TimelineTrack& track : report->timeline) {
      if (track.group.find("rank 1 ") == std::string::npos || track.name != "operations") continue;
      for (const auto& slice : track.slices) expected = slice.length;
    }
    ASSERT_GT(expected, Duration());
    VirtualJob::Options options;
    options.splits = {by(4)};
    play(c, 28, options, {}, [&](const VirtualJob& job, const JobReport&) {
      expect_child(job, 1, 1);
      const CollectiveResult& result = job.child_progress(1).front()->results.front();
      const double seen = (result.end - result.entry).microseconds();
      std::printf("%s %s: %.1f us, all ranks %.1f us, %+.2f %%\n", kind.collective, kind.algorithm,
                  seen, expected.microseconds(), 100 * (seen / expected.microseconds() - 1));
      // Or two packets of 4 KiB for each other rank.
      EXPECT_NEAR(seen, expected.microseconds(),
                  std::max(0.005 * expected.microseconds(), 2 * 33.5 * 3));
    });
  }
}

/// Four nodes with so many GPUs, and a NIC next to each; the second node is real.
std::string of_several_gpus(unsigned gpus, uint32_t minor, const std::string& id,
                            const std::string& children) {
  std::string text = "format = 1\n";
  for (unsigned nic = 0; nic < gpus; ++nic) {
    text += "[[prefix]]\nnic = " + std::to_string(nic) + "\nv4 = \"10." + std::to_string(9 + nic) +
            ".0.0/16\"\n";
  }
  for (const char* head :
       {"name = \"a\"\n", "name = \"gpu\"\nreal = true\n", "name = \"w\"\ncount = 2\n"}) {
    text += "[[node]]\n" + std::string(head) + "gpus = " + std::to_string(gpus) +
            "\nnics = " + std::to_string(gpus) +
            "\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
  }
  for (unsigned nic = 0; nic < gpus; ++nic) {
    text += "[[port]]\nreal = \"gpu\"\nnic = " + std::to_string(nic) + "\ndevice = \"virtual\"\n";
  }
  return text +
         "[[job]]\nname = \"job\"\ncollective = \"all_reduce\"\nranks = [\"a\", \"gpu\", "
         "\"w*\"]\nsizes = [\"400000B\"]\nchannels = " +
         // Half of them are found, a GPU at the head of each; the others are copies.
         std::to_string(2 * gpus) + "\npayload = \"exact\"\nnccl = \"2." + std::to_string(minor) +
         "\"\njoin = { file = \"" + id + "\" }\n" + children;
}

/// Runs it; `operations` of each child, from job 1 on.
void play_children(unsigned gpus, uint32_t minor, const std::string& children,
                   std::vector<Split> splits, const std::vector<size_t>& operations) {
  SCOPED_TRACE("2." + std::to_string(minor));
  const ScratchFile id("id.of.gpus"), capture("pcapng");
  const Config config = config_of(of_several_gpus(gpus, minor, id.path(), children));
  ASSERT_FALSE(testing::Test::HasFailure());
  ASSERT_EQ(config.jobs.size(), 1 + operations.size());
  VirtualJob::Options options;
  options.capture = capture.path();
  options.splits = std::move(splits);
  VirtualJob job(config, options);
  ASSERT_EQ(job.run(), "");
  expect_right(job, false);
  for (size_t i = 0; i < operations.size(); ++i) expect_child(job, 1 + i, operations[i]);
  expect_holds(judged(capture.path(), &config));
}

/// One rank of each node, on its rail; and all ranks of some nodes.
TEST(NcclChildJobs, OfSeveralRanksANode) {
  for (const uint32_t minor : {22U, 28U, 30U}) {
    play_children(2, minor,
                  child("rail", "\"local_rank\"", "\"100004B\"", "iterations = 2\n") +
                      child("pair", "\"/4\"", "\"256KiB\""),
                  {{.color = [](int rank) { return rank % 2; }}, by(4)}, {2, 2, 1});
    if (testing::Test::HasFailure()) return;
  }
}

/// Every second GPU of each node, as data parallel groups beside tensor parallel pairs have them;
/// and the second half of each node's.
TEST(NcclChildJobs, OfSomeRanksOfEachNode) {
  for (const uint32_t minor : {22U, 25U, 29U}) {
    play_children(4, minor,
                  child("data", "\"%2\"", "\"100004B\"", "iterations = 2\n") +
                      child("upper", "[[2, 3, 6, 7, 10, 11, 14, 15]]", "\"256KiB\""),
                  {{.color = [](int rank) { return rank % 2; }},
                   {.color = [](int rank) { return rank % 4 / 2 == 1 ? 0 : -1; }}},
                  {2, 2, 1});
    if (testing::Test::HasFailure()) return;
  }
}

/// In `simulate` a rank may be played by a reference node beside kernels.
TEST(NcclChildJobs, WithAReferenceNodeBesideKernels) {
  for (const uint32_t minor : {22U, 28U}) {
    Case c;
    c.ranks = 6;
    c.reals = {1, 2};
    c.played = {2};
    c.channels = 1;
    c.payload = "exact";
    c.sizes = "\"64KiB\"";
    c.more = "groups = [\"/3\"]\n" + child("half", "\"/3\"", "\"100004B\"", "iterations = 2\n");
    VirtualJob::Options options;
    options.splits = {by(3)};
    play(c, minor, options, {},
         [](const VirtualJob& job, const JobReport&) { expect_child(job, 1, 2); });
    if (testing::Test::HasFailure()) return;
  }
}

/// What no job describes is answered, counted, and makes the verdict "not judged".
TEST(NcclChildJobs, OthersAreAnsweredAndCounted) {
  for (const bool described : {false, true}) {
    Case c;
    c.ranks = 6;
    c.real = 1;
    c.sizes = "\"64KiB\"";
    // Of ranks 0 to 2; a split that comes before it is of all.
    c.more = "groups = [\"all\", \"/3\"]\n";
    if (described) c.more += child("half", "\"/3\"", "\"64B\"");
    VirtualJob::Options options;
    options.splits = {by(3)};
    options.split = true;  // another one of all ranks, before that
    options.use_spares = true;
    play(c, 28, options, {}, [&](const VirtualJob& job, const JobReport& report) {
      EXPECT_GT(report.answered.messages, 0U);
      EXPECT_EQ(report.answered.communicators, described ? 1U : 2U);
      EXPECT_NE(report.not_judged.find("no [[job]] describes"), std::string::npos)
          << report.not_judged;
      if (described) expect_child(job, 1, 1);
    });
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclChildJobs, ThatIsNeverMadeIsNamed) {
  const ScratchFile id("id.of.none");
  Case c;
  c.ranks = 6;
  c.sizes = "\"64KiB\"";
  c.more = child("half", "\"/3\"", "\"64B\"");
  const Config config = config_of(text_of(c, 28, "file = \"" + id.path() + "\""));
  VirtualJob job(config, {});
  ASSERT_EQ(job.run(), "");
  EXPECT_EQ(job.report(0).collectives.size(), 1U);
  const JobReport report = job.report(1);
  EXPECT_EQ(report.failure, "the real ranks have not made its communicator");
  EXPECT_EQ(report.collectives.size(), 0U);
  EXPECT_EQ(report.planned, 1U);
}

/// What a rank's plugin tells of one all-reduce.
void tell(std::vector<uint8_t>& feed, uint64_t communicator, uint32_t rank, uint64_t number,
          uint64_t bytes) {
  FedOperation fed;
  fed.rank = rank;
  fed.communicator = communicator;
  fed.sequence = number;
  fed.operation.count = bytes / 4;
  fed.operation.channels = 2;
  const auto record = record_of(fed);
  feed.insert(feed.end(), record.begin(), record.end());
}

/// The reference rank's first child with that color.
uint64_t child_hash(const NcclUniqueId& id, uint64_t color) {
  return id.magic * 31 + 1000003 + color + 1;
}

/// One plugin tells the operations of parent and child, and of a communicator of real ranks only.
/// Where no job describes the child, they are counted, and the parent's are still known.
TEST(NcclChildJobs, AreFed) {
  for (const uint32_t minor : {23U, 25U, 26U, 28U, 30U}) {
    for (const char* child_operations : {"fed", "told", ""}) {
      SCOPED_TRACE("2." + std::to_string(minor) + " " + child_operations);
      const ScratchFile id("id.of.fed");
      Case c;
      c.ranks = 6;
      c.real = 4;
      c.sizes = "\"144000B\"";
      c.more = "operations = \"fed\"\niterations = 2\ngroups = [\"/3\"]\n";
      const std::string told = child_operations;
      // The reference rank of a child that nobody is told of has room for more credits.
      c.more +=
          child("half", "\"/3\"", "\"36000B\"",
                "iterations = 3\noperations = \"" + (told.empty() ? "inferred" : told) + "\"\n");
      const Config config = config_of(text_of(c, minor, "file = \"" + id.path() + "\""));
      ASSERT_FALSE(testing::Test::HasFailure());
      VirtualJob::Options options;
      options.splits = {by(3)};
      options.described = !told.empty();
      options.plugin = [&](const NcclUniqueId& made) {
        std::vector<uint8_t> feed;
        const uint64_t parent = communicator_hash(made, {minor});
        tell(feed, 0xabcdef, 0, 0, 4);
        tell(feed, parent, 4, 0, 144000);
        for (uint64_t n = 0; n < 3; ++n) tell(feed, child_hash(made, 1), 1, n, 36000);
        tell(feed, 0xabcdef, 0, 1, 4);
        tell(feed, parent, 4, 1, 144000);
        return feed;
      };
      VirtualJob job(config, options);
      ASSERT_EQ(job.run(), "");
      expect_right(job, true);
      const JobReport report = job.report();
      ASSERT_TRUE(report.inferred);
      EXPECT_EQ(report.inferred->lost, "");
      ASSERT_EQ(report.inferred->operations.size(), 2U);
      EXPECT_EQ(report.child_of, "");
      for (const InferredReport& o : report.inferred->operations) EXPECT_EQ(o.right, true);
      if (told.empty()) {
        EXPECT_EQ(report.answered.operations, 3U);
        EXPECT_NE(report.not_judged.find("3 operations in "), std::string::npos);
        continue;
      }
      expect_child(job, 1, 3);
      EXPECT_EQ(report.answered.messages, 0U);
      EXPECT_EQ(report.not_judged, "");
      if (told != "fed") continue;
      const JobReport of_child = job.report(1);
      ASSERT_TRUE(of_child.inferred);
      EXPECT_EQ(of_child.inferred->lost, "");
      ASSERT_EQ(of_child.inferred->operations.size(), 3U);
      for (const InferredReport& o : of_child.inferred->operations) EXPECT_EQ(o.right, true);
    }
  }
}

TEST(NcclChildJobs, AreInferred) {
  for (const uint32_t minor : {22U, 28U, 30U}) {
    const ScratchFile id("id.of.inferred");
    Case c;
    c.ranks = 6;
    c.real = 4;
    c.sizes = "\"144000B\"";
    c.more = "operations = \"inferred\"\niterations = 4\ngroups = [\"/3\"]\n" +
             child("half", "\"/3\"", "\"36000B\"", "iterations = 4\noperations = \"inferred\"\n");
    const Config config = config_of(text_of(c, minor, "file = \"" + id.path() + "\""));
    ASSERT_FALSE(testing::Test::HasFailure());
    VirtualJob::Options options;
    options.splits = {by(3)};
    VirtualJob job(config, options);
    ASSERT_EQ(job.run(), "");
    for (const size_t number : {0U, 1U}) {
      const JobReport report = job.report(number);
      ASSERT_TRUE(report.inferred);
      EXPECT_EQ(report.inferred->lost, "");
      EXPECT_EQ(report.inferred->operations.size(), 4U);
    }
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
