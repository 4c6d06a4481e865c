// Text files of SimAI and AICB as lines and words, and numbers in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "ctrl/config/read/load.h"

namespace understudy {

/// All of a file, at most 64 MiB.
tl::expected<std::string, ConfigError> read_whole(const std::string& path);

/// Without line ends, "\r\n" too; they point into `text`.
std::vector<std::string_view> lines_of(std::string_view text);
/// What blanks and tabs divide.
std::vector<std::string_view> words_of(std::string_view line);

/// A whole or decimal number of 0 to `most`, all of the word; "6291456.0" as Python writes it.
std::optional<double> number_of(std::string_view word, double most);

}  // namespace understudy
