// The list to which jobs add lines: order, what is said once, whose lines they are.
#include "ctrl/validity/validity_lines.h"

#include <gtest/gtest.h>

#include <set>

namespace understudy {
namespace {

TEST(ValidityLines, HaveTheOrderOfTheIds) {
  ValidityLines lines;
  lines.add("one-seed", "c");
  lines.add("buffers", "b");
  lines.add("gpu-costs", "a");
  EXPECT_EQ(validity_text(lines.take(0)),
            "# limit: a [gpu-costs]\n# limit: b [buffers]\n# doubt: c [one-seed]\n");
}

TEST(ValidityLines, AreSaidOnceAndNameTheirJobs) {
  ValidityLines lines;
  for (const char* job : {"a", "b", "a"}) lines.add("gpu-costs", "free", job);
  lines.add("pxn", "none", "b");
  EXPECT_EQ(lines.take(2)[0].text, "free");
  EXPECT_EQ(lines.take(3)[0].text, "free (job a, b)");
  EXPECT_EQ(lines.take(2)[1].text, "none (job b)");
  EXPECT_EQ(lines.take(2).size(), 2u);
  for (const char* job : {"c", "d", "e", "f"}) lines.add("gpu-costs", "free", job);
  EXPECT_EQ(lines.take(9)[0].text, "free (job a, b, c, d and 2 more)");
  // Texts that differ are lines of their own.
  lines.add("gpu-costs", "cheap", "g");
  EXPECT_EQ(lines.take(9).size(), 3u);
}

TEST(ValidityLines, StrictCountsDoubts) {
  ValidityLines lines;
  lines.add("buffers", "b");
  EXPECT_EQ(strict_text(lines.take(0)), "");
  lines.add("one-seed", "s");
  EXPECT_EQ(strict_text(lines.take(0)), "strict: 1 doubt\n");
  lines.add("contention", "c");
  EXPECT_EQ(strict_text(lines.take(0)), "strict: 2 doubts\n");
  EXPECT_EQ(validity_text(doubts_of(lines.take(0))),
            "# doubt: c [contention]\n# doubt: s [one-seed]\n");
}

TEST(ValidityIds, AreDistinctAndLimitsComeFirst) {
  std::set<std::string_view> seen;
  bool doubts = false;
  for (const auto& [id, kind] : kValidityIds) {
    EXPECT_TRUE(seen.insert(id).second) << id;
    EXPECT_TRUE(kind == ValidityKind::kDoubt || !doubts) << id;
    doubts = kind == ValidityKind::kDoubt;
  }
}

}  // namespace
}  // namespace understudy
