// SimAI's tables of ratios: cells, and what is wrong with one.
#include "ctrl/simai/ratio_files.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

const std::string kHead = "Size,1 Node,2,4,8,16,32,64,128,Multi 16,Multi 32\n";

TEST(RatioFiles, CellsAndEmptyOnes) {
  const auto table =
      parse_ratios(kHead + "1024,0.1,0.2,0.3,0.4,0.5,,,,0.9,0.8\r\n2048,1,1,1,1,1,1,1,1,1\n", "r");
  ASSERT_TRUE(table) << table.error().text();
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[0].bytes, 1024u);
  EXPECT_EQ(table->rows[0].shares[4], 0.5);
  EXPECT_EQ(table->rows[0].shares[5], 1);  // empty
  EXPECT_EQ(table->rows[0].shares[8], 0.9);
}

TEST(RatioFiles, BadTablesNameTheLine) {
  const auto expect = [](const std::string& text, const std::string& start) {
    const auto table = parse_ratios(text, "r.csv");
    ASSERT_FALSE(table) << text;
    EXPECT_EQ(table.error().text().find(start), 0u) << table.error().text();
  };
  const std::string row = "1024,1,1,1,1,1,1,1,1,1\n";
  expect("", "r.csv: ");
  expect(kHead, "r.csv: ");
  expect(kHead + "1024,1,1\n", "r.csv:2: ");
  expect(kHead + row + row, "r.csv:3: Size: ");
  expect(kHead + "x" + row, "r.csv:2: Size: ");
  expect(kHead + "1024,1,0,1,1,1,1,1,1,1\n", "r.csv:2: column 3: ");
  expect(kHead + "1024,1,1,1,1,1,1,1,1,inf\n", "r.csv:2: column 10: ");
  EXPECT_FALSE(read_ratios("/no/such/folder"));
}

}  // namespace
}  // namespace understudy
