// What must be ruled out before the parser library sees a text: toml11 3.7.1 recurses without a
// limit, and reads out of bounds when it reports bad UTF-8 in a ''' literal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ctrl/config/toml/toml_tree.h"

namespace understudy {

/// Longest text that is read.
inline constexpr size_t kLongestText = size_t{1} << 20;

/// The first reason not to parse the text: longer than kLongestText, not UTF-8, more than 64 levels
/// of brackets or 64 dots in a line (outside texts and comments).
std::optional<TomlSyntaxError> find_unsafe(std::string_view text);

/// The text without its comments, on the same lines; `in_strings`: a letter of private use stands
/// for each "#" in a string, too. For toml11 4: once it has found an error it never gets past a "#"
/// (skip_comment_block(), 4.4.0).
std::string without_hashes(std::string_view text, bool in_strings);

}  // namespace understudy
