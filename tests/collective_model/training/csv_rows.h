// Rows of a small CSV file without quotes, each as texts by column.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace understudy {

struct CsvRow {
  std::map<std::string, std::string> texts;

  const std::string& text(const std::string& column) const { return texts.at(column); }
  double real(const std::string& column) const { return std::stod(text(column)); }
  uint32_t number(const std::string& column) const {
    return static_cast<uint32_t>(std::stoul(text(column)));
  }
};

/// Of a file below tests/data; a test fails that finds none.
inline std::vector<CsvRow> csv_rows(const std::string& file) {
  std::ifstream in(std::string(UNDERSTUDY_TEST_DATA "/") + file);
  const auto cells_of = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream stream(line.substr(0, line.find('\r')));
    for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::string line;
  EXPECT_TRUE(std::getline(in, line)) << file;
  const std::vector<std::string> columns = cells_of(line);
  std::vector<CsvRow> rows;
  while (std::getline(in, line)) {
    std::vector<std::string> cells = cells_of(line);
    cells.resize(columns.size());
    CsvRow row;
    for (size_t i = 0; i < columns.size(); ++i) row.texts[columns[i]] = cells[i];
    rows.push_back(std::move(row));
  }
  EXPECT_FALSE(rows.empty()) << file;
  return rows;
}

}  // namespace understudy
