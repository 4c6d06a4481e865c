#include "ctrl/simai/ratio_files.h"

#include "ctrl/config/read/csv_file.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr double kMostBytes = 9007199254740992;  ///< 2^53
constexpr double kMostShare = 1000;

tl::expected<RatioTable, ConfigError> read_table(const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  const std::string text = TRY(read_whole(path));
  return parse_ratios(text, path);
}

}  // namespace

tl::expected<RatioTable, ConfigError> parse_ratios(std::string_view text, const std::string& path) {
  const std::vector<std::string_view> lines = lines_of(text);
  RatioTable table;
  for (size_t i = 1; i < lines.size(); ++i) {
    const auto wrong = [&](std::string key, std::string_view found, std::string allowed) {
      return tl::unexpected(ConfigError{path, static_cast<unsigned>(i + 1), std::move(key),
                                        std::string(found), std::move(allowed)});
    };
    if (trimmed(lines[i]).empty()) continue;
    const std::vector<std::string_view> cells = split(lines[i], ',');
    if (cells.size() < 1 + kRatioColumns) {
      return wrong("", std::to_string(cells.size()) + " column(s)",
                   "expected bytes and a share for each of 1 to 128 nodes and many groups");
    }
    RatioTable::Row row;
    const auto bytes = number_of(cells[0], kMostBytes);
    if (!bytes) return wrong("Size", quoted(cells[0]), "expected a number of bytes");
    row.bytes = static_cast<uint64_t>(*bytes);
    if (!table.rows.empty() && row.bytes <= table.rows.back().bytes) {
      return wrong("Size", cells[0], "sizes must ascend");
    }
    for (size_t column = 0; column < kRatioColumns; ++column) {
      const std::string_view cell = cells[1 + column];
      const auto share = cell.empty() ? std::optional(1.0) : number_of(cell, kMostShare);
      if (!share || *share <= 0) {
        return wrong("column " + std::to_string(column + 2), quoted(cell),
                     "expected a share, more than 0");
      }
      row.shares[column] = *share;
    }
    table.rows.push_back(row);
  }
  if (table.rows.empty()) {
    return tl::unexpected(ConfigError{path, 0, "", "no row", "expected SimAI's table of ratios"});
  }
  return table;
}

tl::expected<RatioTables, ConfigError> read_ratios(const std::string& folder) {
  RatioTables tables;
  tables.nic = TRY(read_table(folder, "nic_ratio.csv"));
  tables.nvlink = TRY(read_table(folder, "nvlink_ratio.csv"));
  tables.all_to_all = TRY(read_table(folder, "ata_ratio.csv"));
  return tables;
}

}  // namespace understudy
