// Reference ranks join emulated ones and carry out a job with them, in virtual time: bootstrap,
// net_ib's exchange and every packet.
#include "tests/ctrl/nccl_virtual/rig.h"
#include "tests/extent.h"

namespace understudy::nccl_rank {
namespace {

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
  for (uint32_t minor = 18; minor <= 31; ++minor) {
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
  SomeCases some(5);
  for (const unsigned ranks : {2U, 3U, 8U}) {
    for (const unsigned channels : {1U, 4U, 8U}) {
      for (const Kind& kind : kKinds) {
        if (!some.take()) continue;
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
  for (uint32_t minor = 18; minor <= 31; ++minor) {
    Case c;
    c.ranks = 2U << minor % 3;
    c.payload = "exact";
    c.sizes = "\"1MiB\", \"100004B\", \"64B\"";
    c.real = minor % c.ranks;
    play(c, minor);
    if (testing::Test::HasFailure()) return;
  }
}

/// Of any collective, algorithm and protocol, with values of any type.
TEST(NcclVirtual, ExactOfAnything) {
  constexpr const char* kTypes[] = {"float32", "bfloat16", "int64", "float16", "uint8"};
  for (uint32_t minor = 18; minor <= 31; ++minor) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from) continue;
      Case c = case_of(kind);
      c.payload = "exact";
      c.ranks = 2 + minor % 4;
      c.sizes =
          "\"" + std::to_string(72000 * c.ranks) + "B\", \"" + std::to_string(8 * c.ranks) + "B\"";
      c.real = minor % c.ranks;
      c.more = "type = \"" + std::string(kTypes[minor % 5]) + "\"\n";
      play(c, minor);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// Over connections that the job does not use, of a child of the communicator too, messages go as
/// well: both sides have what they told each other.
TEST(NcclVirtual, OtherConnections) {
  for (uint32_t minor = 18; minor <= 31; ++minor) {
    for (const bool split : {false, true}) {
      VirtualJob::Options options;
      options.use_spares = true;
      options.split = split;
      play({}, minor, options);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// The real rank's search finds more channels than half of the job's (NCCL_MAX_NCHANNELS): other
/// trees. Fewer, with copies (NCCL_MIN_NCHANNELS), is what the reference rank does not know.
TEST(NcclVirtual, TreesOfTheSearch) {
  const Case tree{.algorithm = "tree", .channels = 4};
  VirtualJob::Options options;
  options.search_channels = 4;
  play(tree, 28, options);
  options.search_channels = 2;
  play({.algorithm = "tree", .protocol = "ll", .ranks = 8, .channels = 2}, 29, options);
}

/// The reference rank connects other trees than it uses: it knows no copies of channels
/// (NCCL_MIN_NCHANNELS). What stands when a run ends is given back.
TEST(NcclVirtual, ARunEndsWhileConnectionsStand) {
  const ScratchFile id("id.of.standing");
  const Case tree{.algorithm = "tree", .channels = 4};
  const Config config = config_of(text_of(tree, 28, "file = \"" + id.path() + "\""));
  VirtualJob::Options options;
  options.search_channels = 1;
  VirtualJob job(config, options);
  EXPECT_NE(job.run(), "");
}

}  // namespace
}  // namespace understudy::nccl_rank
