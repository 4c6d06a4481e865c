// Runs the packet scripts of tests/data/rc, each a test of its own.
#include "tests/rc/script.h"

#include <filesystem>
#include <fstream>

#include "tests/rc/script_lines.h"

namespace understudy {
namespace {

const std::filesystem::path kScripts = UNDERSTUDY_TEST_DATA "/rc";

class RcScript : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(RcScript, Runs) {
  std::ifstream in(GetParam());
  ASSERT_TRUE(in) << GetParam();
  ScriptRunner runner;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    SCOPED_TRACE(GetParam().lexically_relative(kScripts).string() + ":" + std::to_string(number) +
                 ": " + line);
    if (line.empty() || line[0] == '#') continue;
    runner.run(line);
    if (HasFatalFailure()) return;
  }
  runner.finish();
}

std::vector<std::filesystem::path> scripts() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kScripts)) {
    if (entry.path().extension() == ".rc") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string name_of(const testing::TestParamInfo<std::filesystem::path>& info) {
  return info.param.parent_path().stem().string() + "_" + info.param.stem().string();
}

INSTANTIATE_TEST_SUITE_P(Files, RcScript, testing::ValuesIn(scripts()), name_of);

/// One behaviour a file, found by its rules: without the head a script would cover nothing.
TEST(RcScripts, EachSaysWhyAndWhichRules) {
  for (const auto& path : scripts()) {
    std::ifstream in(path);
    std::string why, rules, line;
    while (std::getline(in, line) && !line.empty() && line[0] == '#') {
      (line.rfind("# rules: A", 0) == 0 ? rules : why) += line;
    }
    EXPECT_GT(why.size(), 20u) << path;
    EXPECT_FALSE(rules.empty()) << path;
  }
}

}  // namespace
}  // namespace understudy
