// Real nodes that are kernels in virtual time: what the configuration may say of them, and what
// goes with them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ctrl/compile/capabilities.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kHead[] = R"(format = 1
[fabric]
mtu = 4096
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[prefix]]
nic = 1
v4 = "10.10.0.0/24"
[[node]]
name = "gpu"
link = { rate = "100Gbit/s", latency = "500ns" }
)";
constexpr char kPort[] = R"(
[[port]]
real = "gpu"
device = "virtual"
)";

constexpr char kKernel[] = R"(real = { kind = "kernel", program = "x" })";

std::string with(const std::string& real, const std::string& more = kPort) {
  return kHead + real + "\n" + more;
}

Config loaded(const std::string& text) {
  ConfigResult config = load_config_text(text, "k.toml");
  EXPECT_TRUE(config) << describe(config.error());
  return config ? *config : Config();
}

/// Of simulate.
std::string refusal(const Config& config) {
  const std::string port = kernel_without_port(config);
  return port.empty() ? why_not({config}, RunClock::kVirtual) : port;
}

TEST(Kernels, HaveAProgramAndWhatItNeeds) {
  const Config config = loaded(with(
      R"(real = { kind = "kernel", program = "make -C x", share = "../bin", memory = "1GiB" })"));
  ASSERT_TRUE(has_kernels(config));
  EXPECT_TRUE(config.nodes[0].real);
  const KernelConfig& kernel = *config.nodes[0].kernel;
  EXPECT_EQ(kernel.program, "make -C x");
  EXPECT_EQ(kernel.share, "../bin");
  EXPECT_EQ(kernel.memory, uint64_t{1} << 30);
  EXPECT_EQ(refusal(config), "");
}

TEST(Kernels, AShareIsBesideTheFileThatNamesIt) {
  const ConfigResult config = load_config_text(
      with(R"(real = { kind = "kernel", program = "x", share = "bin" })"), "/some/where/k.toml");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->nodes[0].kernel->share, "/some/where/bin");
  EXPECT_EQ(config->nodes[0].kernel->memory, uint64_t{256} << 20);
}

/// Why simulate refuses a configuration in `folder` with such a kernel.
std::string compile_error(const std::string& folder, const std::string& real) {
  const ConfigResult config = load_config_text(with(real), folder + "/k.toml");
  EXPECT_TRUE(config) << describe(config.error());
  if (!config) return "";
  const auto scenario = compile_scenario({*config}, RunClock::kVirtual);
  return scenario ? "" : scenario.error().text;
}

TEST(Kernels, TheirFilesAreThereBeforeTheRun) {
  namespace fs = std::filesystem;
  const std::string folder = testing::TempDir() + "kernel_files";
  fs::create_directories(folder + "/bin");
  std::ofstream(folder + "/bin/made") << "x";
  const auto real = [](const std::string& program, const std::string& share) {
    return "real = { kind = \"kernel\", program = \"" + program + "\", share = \"" + share + "\" }";
  };
  const std::string at = folder + "/k.toml:13: node.real.";
  EXPECT_EQ(compile_error(folder, real("x", "bin")), "");
  EXPECT_EQ(compile_error(folder, real("./made --fast", "bin")), "");
  EXPECT_EQ(compile_error(folder, real("./made", folder + "/bin")), "");
  EXPECT_EQ(compile_error(folder, real("./made", "../bin")),
            at + "share: found \"../bin\": there is no such folder (it counts from the "
                 "configuration's folder)");
  EXPECT_EQ(compile_error(folder, real("./made", "/no/such")),
            at + "share: found \"/no/such\": there is no such folder");
  EXPECT_EQ(compile_error(folder, real("x", "bin/made")),
            at + "share: found \"bin/made\": this is no folder (it counts from the "
                 "configuration's folder)");
  EXPECT_EQ(compile_error(folder, real("./mode --fast", "bin")),
            at + "program: found \"./mode\": there is no such file in its share, \"bin\", where it "
                 "starts");
  EXPECT_EQ(compile_error(folder, real("./$PROGRAM", "bin")), "") << "a shell's matter";
  EXPECT_EQ(compile_error(folder, R"(real = { kind = "kernel", program = "./x" })"), "");
  fs::remove_all(folder);
}

TEST(Kernels, WhatIsWrongWithThemIsNamed) {
  struct Case {
    const char* real;
    const char* key;
    const char* words;
  };
  for (const Case& bad : std::vector<Case>{
           {R"(real = { kind = "kernel" })", "node.real.program", "missing"},
           {R"(real = { program = "x" })", "node.real.kind", "real = true"},
           {R"(real = { kind = "qemu", program = "x" })", "node.real.kind",
            "expected one of kernel"},
           {R"(real = { kind = "kernel", program = " " })", "node.real.program",
            "expected a command"},
           {R"(real = { kind = "kernel", program = 3 })", "node.real.program", "expected"},
           {R"(real = { kind = "kernel", program = "x", memory = "63MiB" })", "node.real.memory",
            "64MiB to 64GiB"},
           {R"(real = { kind = "kernel", program = "x", memory = "65GiB" })", "node.real.memory",
            "64MiB to 64GiB"},
           {R"(real = { kind = "kernel", program = "x", memroy = "1GiB" })", "node.real.memroy",
            "did you mean \"memory\""},
           {R"(real = "kernel")", "node.real", "expected"}}) {
    SCOPED_TRACE(bad.real);
    const ConfigResult config = load_config_text(with(bad.real), "k.toml");
    ASSERT_FALSE(config);
    const ConfigError& error = config.error().front();
    EXPECT_EQ(error.file, "k.toml");
    EXPECT_EQ(error.line, 13u) << error.text();
    EXPECT_EQ(error.key, bad.key) << error.text();
    EXPECT_NE(error.text().find(bad.words), std::string::npos) << error.text();
  }
}

TEST(Kernels, NeedAPortForEachNic) {
  EXPECT_EQ(
      refusal(loaded(with(kKernel, ""))),
      "k.toml:10: node: \"gpu\" is a kernel without a port for its NIC 0: expected a [[port]] "
      "with real = \"gpu\" and device = \"virtual\"");
  const std::string two = std::string("nics = 2\n") + kKernel;
  EXPECT_EQ(
      refusal(loaded(with(two))),
      "k.toml:10: node: \"gpu\" is a kernel without a port for its NIC 1: expected a [[port]] "
      "with real = \"gpu\", nic = 1 and device = \"virtual\"");
  EXPECT_EQ(refusal(loaded(with(two, std::string(kPort) + "nic = 1\n" + kPort))), "");
}

std::string node(const std::string& name, const std::string& real) {
  return "[[node]]\nname = \"" + name + "\"\n" + real +
         "\nlink = { rate = \"100Gbit/s\", latency = \"500ns\" }\n" +
         (real.find("real") == std::string::npos
              ? ""
              : "[[port]]\nreal = \"" + name + "\"\ndevice = \"virtual\"\n");
}

std::string job(const std::string& ranks, const std::string& more = "") {
  return "[[job]]\nname = \"j\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\nranks = [" +
         ranks + "]\nsizes = [\"1MiB\"]\nentry = \"first_credit\"\n" + more;
}

/// Of a kernel "gpu" and, beside it, these nodes and jobs.
std::string refusal_beside(const std::string& more) {
  return refusal(loaded(with(kKernel, std::string(kPort) + more)));
}

TEST(Kernels, HaveReferenceNodesAndEmulatedOnesBesideThem) {
  const std::string nodes =
      node("second", kKernel) + node("reference", "real = true") + node("w", "count = 2");
  EXPECT_EQ(refusal_beside(nodes), "");
  EXPECT_EQ(refusal_beside(nodes + job("\"gpu\", \"w0\"")), "");
  EXPECT_EQ(refusal_beside(nodes + job("\"gpu\", \"second\", \"w0\"")), "");
  EXPECT_EQ(
      refusal_beside(nodes + job("\"gpu\", \"w0\", \"second\", \"w1\"", "payload = \"exact\"\n")),
      "");
  EXPECT_EQ(refusal_beside(nodes + job("\"reference\", \"w0\"")), "");
}

TEST(Kernels, AJobMayHaveReferenceNodesToo) {
  const std::string nodes =
      node("second", kKernel) + node("reference", "real = true") + node("w", "");
  EXPECT_EQ(refusal_beside(nodes + job("\"gpu\", \"reference\", \"w\"")), "");
  EXPECT_EQ(refusal_beside(nodes + job("\"gpu\", \"reference\", \"second\"")), "");
  EXPECT_EQ(refusal_beside(nodes + job("\"gpu\", \"reference\", \"w\"", "type = \"float16\"\n")),
            "");
  for (const char* ranks : {"\"gpu\", \"reference\", \"w\"", "\"reference\", \"gpu\""}) {
    for (const char* more : {"", "operations = \"inferred\"\n", "payload = \"exact\"\n"}) {
      const std::string keys = std::string("join = { file = \"id\" }\n") + more;
      const bool guessed = keys.find("inferred") != std::string::npos;
      const bool emulated = std::string(ranks).find("w") != std::string::npos;
      const std::string why = refusal_beside(nodes + job(ranks, keys));
      EXPECT_EQ(why, guessed && !emulated
                         ? "k.toml:36: job: found 2 real nodes and no emulated rank: there is no "
                           "emulated rank that has to know what the real ones do"
                         : "");
    }
  }
}

TEST(Kernels, AJobOfKernelsHasARankThatKnowsIt) {
  const std::string nodes =
      node("second", kKernel) + node("reference", "real = true") + node("w", "");
  EXPECT_EQ(refusal_beside(nodes + job("\"gpu\", \"second\"")),
            "k.toml:36: job: found 2 kernels and no emulated rank: kernels alone need no [[job]]: "
            "ring_node --rank, --ranks, --sizes");
  EXPECT_EQ(refusal_beside(nodes + job("\"gpu\", \"second\"", "type = \"float16\"\n")),
            "k.toml:36: job: found 2 kernels and no emulated rank: ring_node is told such a job by "
            "a node that is played here, and there is none");
}

TEST(Kernels, TellTheirJobsFromReferenceNodes) {
  const Config config = loaded(with(kKernel, std::string(kPort) + node("reference", "real = true") +
                                                 node("w", "") + job("\"gpu\", \"w\"")));
  EXPECT_FALSE(has_reference_ranks(config, config.jobs[0]));
  JobConfig other = config.jobs[0];
  other.ranks[0] = config.nodes[1].index;
  EXPECT_TRUE(has_reference_ranks(config, other));
}

TEST(Kernels, AreNotForRun) {
  const Config config = loaded(with(R"(real = { kind = "kernel", program = "x" })"));
  EXPECT_EQ(why_not({config}, RunClock::kReal),
            "k.toml:10: node: found \"gpu\", a kernel: its time is virtual, and run is in real "
            "time: use understudy simulate, or real = true for a node on the wire");
  EXPECT_EQ(why_not({loaded(with("real = true"))}, RunClock::kReal), "");
}

TEST(RealNodes, OfAJobInRunAreAnyButAll) {
  const std::string more = kPort + node("other", "real = true") + node("w", "");
  const auto why = [&](const char* ranks) {
    return why_not({loaded(with("real = true", more + job(ranks)))}, RunClock::kReal);
  };
  EXPECT_EQ(why("\"gpu\", \"other\", \"w\""), "");
  EXPECT_NE(why("\"gpu\", \"other\"").find("real nodes alone need no [[job]]"), std::string::npos)
      << why("\"gpu\", \"other\"");
}

TEST(Kernels, WithoutThemNothingIsSaid) {
  const Config config = loaded(with("real = true", ""));
  EXPECT_FALSE(has_kernels(config));
  EXPECT_EQ(refusal(config), "");
}

}  // namespace
}  // namespace understudy
