// docs/guides/validity.md explains every id, each under its kind.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "ctrl/validity/validity_lines.h"

namespace understudy {
namespace {

TEST(Guide, HasEveryIdUnderItsKind) {
  const auto path = std::filesystem::path(UNDERSTUDY_TEST_DATA) / "../../docs/guides/validity.md";
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  std::set<std::pair<std::string, ValidityKind>> told, known;
  ValidityKind kind = ValidityKind::kLimit;
  for (std::string line; std::getline(file, line);) {
    if (line == "## Doubts") kind = ValidityKind::kDoubt;
    if (!line.starts_with("| `")) continue;
    const std::string id = line.substr(3, line.find('`', 3) - 3);
    EXPECT_TRUE(told.emplace(id, kind).second) << id << " twice";
  }
  for (const auto& [id, of] : kValidityIds) known.emplace(id, of);
  EXPECT_EQ(told, known);
}

}  // namespace
}  // namespace understudy
