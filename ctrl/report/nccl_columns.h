// The columns of nccl-tests, which all tables of collectives have: a heading of names and units
// whose lines begin with '#', then a line of figures for each size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy {

struct TableColumn {
  std::string_view name, unit;
  int width = 0;  ///< figures stand at its right
  int gap = 2;    ///< blanks in front of it
};

class NcclColumns {
 public:
  explicit NcclColumns(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  // Each line ends with a line feed.

  std::string names() const;
  /// Names, then units.
  std::string heading() const;
  /// A cell for each column.
  std::string row(const std::vector<std::string>& cells) const;

 private:
  std::string marked(std::string_view TableColumn::*text) const;

  std::vector<TableColumn> columns_;
};

// Columns in their order, as wide as nccl-tests has them where nothing is said.
constexpr TableColumn size_column(int width = 12) { return {"size", "(B)", width, 0}; }
constexpr TableColumn count_column(int gap = 2) { return {"count", "(elements)", 12, gap}; }
constexpr TableColumn type_column(int width = 8, int gap = 2) { return {"type", "", width, gap}; }
constexpr TableColumn redop_column() { return {"redop", "", 6}; }
constexpr TableColumn root_column() { return {"root", "", 6}; }
constexpr TableColumn time_column(int width = 9) { return {"time", "(us)", width}; }
constexpr TableColumn algbw_column(int width = 7, int gap = 2) {
  return {"algbw", "(GB/s)", width, gap};
}
constexpr TableColumn busbw_column(int width = 7, int gap = 2) {
  return {"busbw", "(GB/s)", width, gap};
}
constexpr TableColumn wrong_column(int width = 6, int gap = 1) {
  return {"#wrong", "", width, gap};
}

/// Of GB/s, 1e9 bytes per second. nccl-tests prints two decimals; slow links need more to show
/// anything.
std::string bandwidth_text(double gigabytes);
/// nccl-tests' word for a type of the configuration's: "float" for "float32".
std::string type_word(std::string_view type);
/// A root, or -1 where an operation has none.
std::string root_text(bool has_root, uint32_t root);

}  // namespace understudy
