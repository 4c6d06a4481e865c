// Reference ranks join emulated ones and carry out a job with them, in virtual time: bootstrap,
// net_ib's exchange and every packet.
#include "ctrl/build/expected_messages.h"
#include "tests/ctrl_simulate_rig.h"
#include "tests/nccl_virtual/virtual_job.h"

namespace understudy::nccl_rank {
namespace {

struct Case {
  std::string collective = "all_reduce";
  std::string algorithm = "ring", protocol = "simple";
  unsigned ranks = 4, channels = 2;
  std::string sizes = "\"200000B\"";
  std::string payload = "synthetic";
  unsigned real = 0;  ///< the reference rank's number
  std::string more = {};
};

std::string text_of(const Case& c, uint32_t minor, const std::string& join) {
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
void play(const Case& c, uint32_t minor, VirtualJob::Options options = {}, std::string join = {}) {
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
  const Analysis analysis = judged(options.capture, model ? &config : nullptr);
  expect_holds(analysis);
  if (model) {
    EXPECT_EQ(analysis.findings.verdict(Check::kCollective), Verdict::kHolds);
  }
  if (options.use_spares) {
    EXPECT_FALSE(job.node().spares().empty());
  }
}

struct Kind {
  const char* collective;
  const char* algorithm;
  const char* protocol;
  uint32_t from = 18;  ///< release
};
constexpr Kind kKinds[] = {
    {"all_reduce", "ring", "simple"},    {"all_reduce", "ring", "ll"},
    {"all_reduce", "ring", "ll128"},     {"all_reduce", "tree", "simple"},
    {"all_gather", "ring", "simple"},    {"reduce_scatter", "ring", "simple"},
    {"broadcast", "ring", "simple"},     {"reduce", "ring", "simple"},
    {"all_gather", "pat", "simple", 23}, {"reduce_scatter", "pat", "simple", 23},
    {"send_recv", "ring", "simple", 22}, {"all_to_all", "ring", "simple", 22},
};

Case case_of(const Kind& kind) {
  Case c;
  c.collective = kind.collective;
  c.algorithm = kind.algorithm;
  c.protocol = kind.protocol;
  return c;
}

/// The reference rank is any of them, the root its own or the emulated ranks'.
TEST(NcclVirtual, EveryRelease) {
  for (uint32_t minor = 18; minor <= 30; ++minor) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from) continue;
      Case c = case_of(kind);
      c.real = minor % 4;
      VirtualJob::Options options;
      options.seed = minor;
      play(c, minor, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclVirtual, OtherSizes) {
  for (const unsigned ranks : {2U, 3U, 8U}) {
    for (const unsigned channels : {1U, 4U, 8U}) {
      for (const Kind& kind : kKinds) {
        Case c = case_of(kind);
        c.ranks = ranks;
        c.channels = channels;
        c.real = channels % ranks;
        c.sizes = "\"72000B\", \"1048320B\"";  // of whole parts
        play(c, 28);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

/// NCCL_COMM_ID, whose root both sides know beforehand; 2.29 takes none with IPv4.
TEST(NcclVirtual, ByCommId) {
  for (const uint32_t minor : {22U, 25U, 28U, 30U}) {
    for (const unsigned real : {0U, 2U}) {
      Case c;
      c.real = real;
      play(c, minor, {}, "comm_id = \"10.9.0.1:5555\"");
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclVirtual, SeveralQueuePairs) {
  for (const uint32_t minor : {18U, 22U, 28U, 30U}) {
    for (const char* split : {"false", "true"}) {
      Case c;
      const ScratchFile id("id.of.several");
      play(c, minor, {}, "file = \"" + id.path() + "\", queue_pairs = 4, split_data = " + split);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclVirtual, Inferred) {
  for (const uint32_t minor : {22U, 25U, 28U, 30U}) {
    Case c;
    c.more = "operations = \"inferred\"\niterations = 4\n";
    play(c, minor);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclVirtual, AtFirstUse) {
  for (uint32_t minor = 22; minor <= 30; ++minor) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from) continue;
      VirtualJob::Options options;
      options.lazy = true;
      play(case_of(kind), minor, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Small operations go by another algorithm than large ones, whose connections come when they are
/// first wanted.
TEST(NcclVirtual, OtherAlgorithmsLater) {
  for (const uint32_t minor : {22U, 26U, 28U, 30U}) {
    Case c;
    c.algorithm = c.protocol = "auto";
    c.ranks = 8;
    c.sizes = "\"1KiB\", \"16MiB\", \"2KiB\"";
    c.more = "iterations = 2\n";
    VirtualJob::Options options;
    options.lazy = true;
    play(c, minor, options);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclVirtual, Exact) {
  for (uint32_t minor = 18; minor <= 30; ++minor) {
    Case c;
    c.ranks = 2U << minor % 3;
    c.payload = "exact";
    c.sizes = "\"1MiB\", \"100004B\", \"64B\"";
    c.real = minor % c.ranks;
    play(c, minor);
    if (testing::Test::HasFailure()) return;
  }
}

/// Over connections that the job does not use, of a child of the communicator too, messages go as
/// well: both sides have what they told each other.
TEST(NcclVirtual, OtherConnections) {
  for (uint32_t minor = 18; minor <= 30; ++minor) {
    for (const bool split : {false, true}) {
      VirtualJob::Options options;
      options.use_spares = true;
      options.split = split;
      play({}, minor, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclVirtual, SixtyFour) {
  for (const uint32_t minor : {18U, 23U, 28U, 30U}) {
    Case c;
    c.ranks = 64;
    c.payload = "exact";
    c.sizes = "\"1MiB\"";
    play(c, minor);
    c.payload = "synthetic";
    c.algorithm = "tree";
    play(c, minor);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclVirtual, Thousand) {
  VirtualJob::Options options;
  options.whole = true;
  Case c;
  c.ranks = 1024;
  c.channels = 1;
  c.payload = "exact";
  c.sizes = "\"1MiB\"";
  play(c, 28, options);
  c.payload = "synthetic";
  c.algorithm = "tree";
  c.channels = 2;
  play(c, 30, options);
}

}  // namespace
}  // namespace understudy::nccl_rank
