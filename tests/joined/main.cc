// Runs the tests of one of the files that this program was made of: --file=PATH (its end will do).
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

/// GoogleTest's filter for the tests of that file; empty: there are none.
std::string tests_of(std::string_view file) {
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (!std::string_view(test.file()).ends_with(file)) continue;
      filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (!word.starts_with(kFile)) {
    std::fprintf(stderr, "usage: %s --file=PATH [GoogleTest's options]\n", argv[0]);
    return 2;
  }
  const std::string filter = tests_of(word.substr(kFile.size()));
  if (filter.empty()) {
    std::fprintf(stderr, "%s: no test of this program is in %s\n", argv[0], word.data());
    return 2;
  }
  testing::GTEST_FLAG(filter) = filter;
  return RUN_ALL_TESTS();
}
