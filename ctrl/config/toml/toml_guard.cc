#include "ctrl/config/toml/toml_guard.h"

#include <algorithm>
#include <cstdint>

namespace understudy {
namespace {

constexpr unsigned kDeepest = 64;

/// Skips the string that starts at `at`; returns the index after it (or the end of the text).
size_t skip_string(std::string_view text, size_t at, unsigned& line) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool multi = text.substr(at, 3) == three;
  at += multi ? 3 : 1;
  while (at < text.size()) {
    if (text[at] == '\n') {
      if (!multi) return at;  // unterminated: the parser will say so
      ++line;
    }
    if (text[at] == '\\' && quote == '"' && at + 1 < text.size() && text[at + 1] != '\n') {
      at += 2;
      continue;
    }
    if (text[at] == quote && !multi) return at + 1;
    if (multi && text.substr(at, 3) == three) {
      at += 3;
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    }
    ++at;
  }
  return text.size();
}

/// Length of the UTF-8 sequence (RFC 3629) at `at`, or 0 if there is none.
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >> 5 == 0x06 ? 2 : lead >> 4 == 0x0e ? 3 : lead >> 3 == 0x1e ? 4 : 0;
  if (length == 0) return 0;
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < kSmallest[length] || surrogate || code > 0x10ffff ? 0 : length;
}

std::optional<TomlSyntaxError> find_bad_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text, at);
    if (length == 0) {
      const auto lines =
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
      return TomlSyntaxError{static_cast<unsigned>(lines + 1), "the text is not valid UTF-8"};
    }
    at += length;
  }
  return std::nullopt;
}

std::optional<TomlSyntaxError> find_excess(std::string_view text) {
  unsigned line = 1;
  unsigned depth = 0;
  unsigned dots = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = skip_string(text, at, line);
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '\n') {
      ++line;
      dots = 0;
    }
    if (c == '.' && ++dots > kDeepest) return TomlSyntaxError{line, "more than 64 dots in a line"};
    if ((c == '[' || c == '{') && ++depth > kDeepest) {
      return TomlSyntaxError{line, "more than 64 levels of brackets"};
    }
    if ((c == ']' || c == '}') && depth > 0) --depth;
    ++at;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TomlSyntaxError> find_unsafe(std::string_view text) {
  if (text.size() > kLongestText) return TomlSyntaxError{0, "the file is larger than 1 MiB"};
  if (auto bad = find_bad_utf8(text)) return bad;
  return find_excess(text);
}

std::string without_hashes(std::string_view text, bool in_strings) {
  constexpr std::string_view kInstead = "\xee\x80\x80";  // U+E000
  std::string out;
  unsigned line = 1;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (text[at] == '"' || text[at] == '\'') end = skip_string(text, at, line);
    for (; at < end; ++at) {
      if (text[at] == '#' && in_strings) {
        out += kInstead;
      } else {
        out += text[at];
      }
    }
  }
  return out;
}

}  // namespace understudy
