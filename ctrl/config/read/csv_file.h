// CSV files that a configuration names: their text, and its lines' cells.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/read/sections.h"

namespace understudy {

struct CsvFile {
  std::string path;  ///< as this process opens it
  std::string text;
};

/// The file that `name`, the value of `key`, names: from the folder of the configuration, at most
/// 64 MiB. Nothing, and reported, if it cannot be read.
std::optional<CsvFile> read_csv_file(TableReader& table, ReadContext& context,
                                     const Located<std::string>& name,
                                     std::string_view key = "file");

/// The path that `name` in `file` stands for: from the folder of that file.
std::string beside(const std::string& file, const std::string& name);

/// Without blanks around it.
std::string_view trimmed(std::string_view text);
/// The trimmed parts; one more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);
/// In double quotes.
std::string quoted(std::string_view text);

}  // namespace understudy
