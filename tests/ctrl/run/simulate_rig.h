// For tests of `simulate`: rings as configurations, runs of them, and their captures judged.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ctrl/config/read/load.h"
#include "ctrl/run/commands_text.h"
#include "ctrl/run/simulate.h"
#include "tests/rigs/compile_and_simulate.h"
#include "tests/tools/roce_check/capture.h"

namespace understudy {

/// One ring all-reduce of a real rank and ranks - 1 emulated ones, all links alike.
struct RingText {
  unsigned ranks = 4;
  std::string rate = "10Gbit/s";
  std::string latency = "1us";  ///< of each node's link: half of the way between neighbours
  std::string sizes = "\"1MiB\"";
  uint32_t mtu = 4096;
  std::string control_class = "shared";
  std::string fabric = {};  ///< more lines of [fabric]
  std::string job = {};     ///< more lines of the job
  std::string more = {};    ///< more tables

  std::string text() const {
    const std::string link = "link = { rate = \"" + rate + "\", latency = \"" + latency + "\" }\n";
    return "format = 1\n[fabric]\nmtu = " + std::to_string(mtu) + "\ncontrol_class = \"" +
           control_class + "\"\n" + fabric +
           "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n"
           "[[node]]\nname = \"gpu\"\nreal = true\n" +
           link + "[[node]]\nname = \"w\"\ncount = " + std::to_string(ranks - 1) + "\n" + link +
           "[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n"
           "[[job]]\nname = \"ring\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n"
           "ranks = [\"gpu\", \"" +
           (ranks > 2 ? "w*" : "w") + "\"]\nsizes = [" + sizes +
           "]\nentry = \"scheduled\"\ninterval = \"1ms\"\n" + job + more;
  }
};

inline Config config_of(const std::string& text) {
  auto config = load_config_text(text, "test.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()) + text);
  return config ? std::move(*config) : Config{};
}

inline std::vector<EventConfig> parsed(const Config& config,
                                       const std::vector<std::string>& commands) {
  std::vector<EventConfig> out;
  for (const std::string& text : commands) {
    auto command = parse_command(config, text);
    EXPECT_TRUE(command) << (command ? "" : command.error().text);
    if (command) out.push_back(*command);
  }
  return out;
}

inline RunReport simulated(const Config& config, const std::string& capture = "",
                           const std::vector<std::string>& commands = {}) {
  SimulateOptions options;
  options.capture_path = capture;
  auto report = compile_and_simulate(config, options, parsed(config, commands));
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  return report ? std::move(*report) : RunReport{};
}

/// A file that is gone when the test is over.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + test->test_suite_name() + "." + test->name() + "." + name;
    for (char& c : path_) {
      if (c == '/' && &c >= path_.data() + testing::TempDir().size()) c = '_';
    }
  }
  ~ScratchFile() {
    std::error_code gone;
    std::filesystem::remove(path_, gone);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
};

/// The capture judged as it stands; with a configuration also its rates and collectives.
inline Analysis judged(const std::string& capture, const Config* config) {
  auto analysis = analyse(capture, {.open_end = false, .config = config});
  EXPECT_TRUE(analysis) << (analysis ? "" : analysis.error().text);
  return analysis ? std::move(*analysis) : Analysis{};
}

}  // namespace understudy
