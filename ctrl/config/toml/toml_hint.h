// What to do about the commonest mistakes of TOML's syntax, which the parser library only names.
#pragma once

#include <string>
#include <string_view>

namespace understudy {

/// Of the line `line` of `text`, with which the parser does not get on: a text without quotes, or
/// without the closing one. Empty if it is neither.
std::string syntax_hint(std::string_view text, unsigned line);

}  // namespace understudy
