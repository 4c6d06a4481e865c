// Several reference ranks on one real node, each beside a NIC of its own or shared with others, of
// one port or of several that NCCL merged: bootstrap, net_ib's exchange, every packet. Judged by
// values, and by the packets on each port.
#include <array>

#include "tests/ctrl/nccl_virtual/port_parts.h"
#include "tests/ctrl/nccl_virtual/rig.h"
#include "tests/extent.h"

namespace understudy::nccl_rank {
namespace {

/// Channels: twice as many as GPUs, so that the search of each node finds a channel that begins at
/// each of them, as the model has it.
struct Shape {
  unsigned gpus = 2, nics = 2, merged = 1;
  unsigned emulated = 0;  ///< NICs of an emulated node; 0: as many as the real one has
  unsigned nodes = 4, channels = 4;
  std::string collective = "all_reduce", algorithm = "ring", payload = "synthetic";
  std::string sizes = "\"400000B\"", more = {};
  unsigned gigabits = 10;  ///< of a real NIC; the emulated ones of a node have as much together
  bool emulated_root = false, two_real = false;

  unsigned emulated_nics() const { return emulated == 0 ? nics : emulated; }
  /// NICs of a node as NCCL takes them for its ranks.
  unsigned devices() const {
    return std::min(gpus, std::max(std::min(nics, emulated_nics()) / merged, 1U));
  }
};

std::string text_of(const Shape& s, uint32_t minor, const std::string& id) {
  std::string text = "format = 1\n";
  for (unsigned nic = 0; nic < std::max(s.nics, s.emulated_nics()); ++nic) {
    text += "[[prefix]]\nnic = " + std::to_string(nic) + "\nv4 = \"10." + std::to_string(9 + nic) +
            ".0.0/16\"\n";
  }
  const auto node = [&](const std::string& head, unsigned nics) {
    text += "[[node]]\n" + head + "gpus = " + std::to_string(s.gpus) +
            "\nnics = " + std::to_string(nics) + "\nlink = { rate = \"" +
            std::to_string(s.gigabits * s.nics / nics) + "Gbit/s\", latency = \"1us\" }\n";
  };
  const auto real = [&](const std::string& name) {
    node("name = \"" + name + "\"\nreal = true\n", s.nics);
    for (unsigned nic = 0; nic < s.nics; ++nic) {
      text += "[[port]]\nreal = \"" + name + "\"\nnic = " + std::to_string(nic) +
              "\ndevice = \"virtual\"\n";
    }
  };
  real("gpu");
  node("name = \"w\"\ncount = " + std::to_string(s.nodes - 1) + "\n", s.emulated_nics());
  if (s.two_real) real("gpu2");
  const std::string ranks = s.two_real        ? "\"gpu\", \"w*\", \"gpu2\""
                            : s.emulated_root ? "\"w*\", \"gpu\""
                                              : "\"gpu\", \"w*\"";
  return text + "[[job]]\nname = \"job\"\ncollective = \"" + s.collective + "\"\nalgorithm = \"" +
         s.algorithm + "\"\nranks = [" + ranks + "]\nsizes = [" + s.sizes +
         "]\nchannels = " + std::to_string(s.channels) + "\npayload = \"" + s.payload +
         "\"\nnccl = \"2." + std::to_string(minor) +
         "\"\nmerged_nics = " + std::to_string(s.merged) +
         "\ninterval = \"20ms\"\njoin = { file = \"" + id + "\" }\n" + s.more;
}

/// Returns what the last operation took.
Duration joined(const Shape& s, uint32_t minor, VirtualJob::Options options = {}) {
  SCOPED_TRACE("2." + std::to_string(minor) + " " + s.collective + " " + s.algorithm + ", " +
               std::to_string(s.gpus) + " ranks a node, " + std::to_string(s.nics) + " NICs, " +
               std::to_string(s.merged) + " merged");
  const ScratchFile id("id"), capture("pcapng");
  const Config config = config_of(text_of(s, minor, id.path()));
  if (testing::Test::HasFailure()) return {};
  options.capture = capture.path();
  VirtualJob job(config, options);
  EXPECT_EQ(job.run(), "");
  if (testing::Test::HasFailure()) return {};
  const JobReport report = job.report();
  EXPECT_EQ(report.violations, 0u);
  EXPECT_EQ(report.collectives.size(), job.setup().operations.size());
  expect_right(job, report.inferred.has_value());
  expect_holds(judged(capture.path(), options.use_spares || report.inferred ? nullptr : &config));
  if (s.two_real) return report.collectives.back().measured;
  // Ring and tree enter and leave a node by the first and the last GPU of each channel's chain.
  const auto parts = parts_of(capture.path());
  EXPECT_EQ(parts.size(), std::min(s.devices() * s.merged, s.nics));
  for (const auto& [nic, part] : parts) {
    EXPECT_LT(nic, s.nics);
    EXPECT_GT(part.parts, 0u) << "NIC " << nic;
    // Messages are cut in equal parts: so many on each NIC of a device.
    const uint64_t first = nic / s.merged * s.merged;
    EXPECT_EQ(part.parts, parts.at(static_cast<uint32_t>(first)).parts) << "NIC " << nic;
  }
  return report.collectives.back().measured;
}

struct Kind {
  const char* collective;
  const char* algorithm;
  uint32_t from = 18;  ///< release
};
constexpr Kind kKinds[] = {{"all_reduce", "ring"},
                           {"all_reduce", "tree"},
                           {"all_gather", "ring"},
                           {"send_recv", "ring", 22},
                           {"all_to_all", "ring", 22}};

TEST(NcclGpus, EveryRelease) {
  SomeCases some(3);
  for (uint32_t minor = 18; minor <= 30; ++minor) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from || !some.take()) continue;
      Shape s;
      s.collective = kind.collective;
      s.algorithm = kind.algorithm;
      joined(s, minor);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclGpus, MergedNicsOfEveryRelease) {
  SomeCases some(3);
  for (uint32_t minor = 20; minor <= 30; ++minor) {
    for (const Kind& kind : kKinds) {
      if (minor < kind.from || !some.take()) continue;
      Shape s{.nics = 4, .merged = 2};
      s.collective = kind.collective;
      s.algorithm = kind.algorithm;
      joined(s, minor);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclGpus, MergedNicsAreRightToTheBit) {
  SomeCases some(3);
  for (uint32_t minor = 20; minor <= 30; ++minor) {
    for (const char* algorithm : {"ring", "tree"}) {
      if (!some.take()) continue;
      Shape s{.gpus = 4, .nics = 4, .merged = 2, .channels = 8};
      s.algorithm = algorithm;
      s.payload = "exact";
      s.sizes = "\"256KiB\", \"100004B\"";
      s.emulated_root = minor % 2 == 0;
      joined(s, minor);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(NcclGpus, OfAnyShape) {
  for (const Shape& s : {Shape{.gpus = 2, .nics = 2, .merged = 2},
                         Shape{.gpus = 4, .nics = 4, .merged = 2, .channels = 8},
                         Shape{.gpus = 2, .nics = 2, .merged = 2, .emulated = 1},
                         Shape{.gpus = 2, .nics = 4, .merged = 2, .emulated = 2},
                         Shape{.gpus = 2, .nics = 2, .merged = 1, .emulated = 4},
                         Shape{.gpus = 2, .nics = 8, .merged = 4},
                         Shape{.gpus = 4, .nics = 8, .merged = 2, .channels = 8},
                         Shape{.gpus = 4, .nics = 2, .merged = 1, .channels = 8}}) {
    joined(s, 28);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclGpus, OnTwoRealNodes) {
  for (const uint32_t minor : {20U, 24U, 28U, 30U}) {
    for (const char* algorithm : {"ring", "tree"}) {
      Shape s{.nics = 4, .merged = 2, .two_real = true};
      s.algorithm = algorithm;
      s.payload = "exact";
      joined(s, minor);
      if (testing::Test::HasFailure()) return;
    }
  }
}

/// As fast as NICs of twice the rate, one a GPU.
TEST(NcclGpus, MergedNicsCarryWhatTheyHaveTogether) {
  for (const Kind& kind : kKinds) {
    Shape one{.gigabits = 20}, two{.nics = 4, .merged = 2};
    for (Shape* s : {&one, &two}) {
      s->collective = kind.collective;
      s->algorithm = kind.algorithm;
      s->sizes = "\"4000000B\"";
    }
    const double expected = joined(one, 28).microseconds();
    EXPECT_GT(expected, 0);
    const double seen = joined(two, 28).microseconds();
    EXPECT_NEAR(seen, expected, 0.02 * expected) << kind.collective;
    RecordProperty(std::string(kind.collective) + "_" + kind.algorithm,
                   std::to_string(expected) + " us, merged " + std::to_string(seen));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclGpus, OtherWaysToConnect) {
  for (const uint32_t minor : {22U, 24U, 28U, 30U}) {
    Shape s{.nics = 4, .merged = 2};
    VirtualJob::Options options;
    options.lazy = true;
    joined(s, minor, options);
    options.lazy = false;
    options.use_spares = true;
    joined(s, minor, options);
    options.use_spares = false;
    options.split = true;
    joined(s, minor, options);
    s.more = "operations = \"inferred\"\niterations = 4\n";
    joined(s, minor);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NcclGpus, EachNicIsTested) {
  const ScratchFile id("id");
  Shape s{.nics = 4, .merged = 2};
  s.more = "iterations = 40\n";  // 0.8 s
  const Config config = config_of(text_of(s, 28, id.path()));
  VirtualJob job(config, {});
  ASSERT_EQ(job.run(), "");
  for (const char* line : {"self-test: gpu (10.9.0.1) answers all 12 emulated addresses",
                           "self-test: RoCE passes between gpu (10.9.0.1) and queue pairs"}) {
    EXPECT_EQ(times_said(job.said(), line), 1u) << line;
  }
}

}  // namespace
}  // namespace understudy::nccl_rank
