#include "ctrl/config/toml_tree.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <sstream>
#include <string_view>
#include <toml.hpp>

namespace understudy {
namespace {

constexpr size_t kLongestText = size_t{1} << 20;
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

/// The parser recurses without a limit, so nesting is bounded before it sees the text.
std::optional<TomlSyntaxError> find_excess(std::string_view text) {
  if (text.size() > kLongestText) return TomlSyntaxError{0, "the file is larger than 1 MiB"};
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

unsigned line_of(const toml::source_location& where) { return static_cast<unsigned>(where.line()); }

TomlNode convert(const toml::value& value) {
  TomlNode node;
  node.line = line_of(value.location());
  switch (value.type()) {
    case toml::value_t::table:
      node.kind = TomlNode::Kind::kTable;
      for (const auto& [key, child] : value.as_table()) {
        node.children.push_back(convert(child));
        node.children.back().key = key;
      }
      // The library keeps tables unordered; errors and runs must not depend on its hash.
      std::sort(node.children.begin(), node.children.end(),
                [](const TomlNode& a, const TomlNode& b) {
                  return a.line != b.line ? a.line < b.line : a.key < b.key;
                });
      break;
    case toml::value_t::array:
      node.kind = TomlNode::Kind::kArray;
      for (const toml::value& child : value.as_array()) node.children.push_back(convert(child));
      break;
    case toml::value_t::string:
      node.kind = TomlNode::Kind::kString;
      node.text = value.as_string().str;
      break;
    case toml::value_t::integer:
      node.kind = TomlNode::Kind::kInteger;
      node.integer = value.as_integer();
      break;
    case toml::value_t::floating:
      node.kind = TomlNode::Kind::kFloat;
      node.real = value.as_floating();
      break;
    case toml::value_t::boolean:
      node.kind = TomlNode::Kind::kBoolean;
      node.boolean = value.as_boolean();
      break;
    default:
      node.kind = TomlNode::Kind::kDateTime;
      break;
  }
  return node;
}

/// The library's message has the form "[error] toml::function: text", the source lines, and a
/// marker "^--- remark"; text and remark are what a user needs.
std::string shorten(const std::string& what) {
  std::string text = what.substr(0, what.find('\n'));
  const size_t function = text.find("toml::");
  if (function != std::string::npos) {
    const size_t colon = text.find(": ", function);
    if (colon != std::string::npos) text.erase(0, colon + 2);
  }
  constexpr std::string_view kMarker = "^--- ";
  const size_t marker = what.find(kMarker);
  if (marker != std::string::npos) {
    const size_t begin = marker + kMarker.size();
    text += " (" + what.substr(begin, what.find('\n', begin) - begin) + ")";
  }
  return text;
}

}  // namespace

tl::expected<TomlNode, TomlSyntaxError> parse_toml(const std::string& text) {
  if (auto excess = find_excess(text)) return tl::unexpected(*excess);
  try {
    std::istringstream stream(text);
    return convert(toml::parse(stream, "configuration"));
  } catch (const toml::exception& e) {
    return tl::unexpected(TomlSyntaxError{line_of(e.location()), shorten(e.what())});
  } catch (const std::exception& e) {
    return tl::unexpected(TomlSyntaxError{0, shorten(e.what())});
  }
}

std::string TomlNode::describe() const {
  switch (kind) {
    case Kind::kTable:
      return "a table";
    case Kind::kArray:
      return "an array";
    case Kind::kString: {
      constexpr size_t kLongestShown = 60;
      if (text.size() <= kLongestShown) return "\"" + text + "\"";
      return "\"" + text.substr(0, kLongestShown) + "...\"";
    }
    case Kind::kInteger:
      return std::to_string(integer);
    case Kind::kFloat: {
      std::ostringstream out;
      out << real;
      return out.str();
    }
    case Kind::kBoolean:
      return boolean ? "true" : "false";
    case Kind::kDateTime:
      return "a date or time";
  }
  return {};
}

}  // namespace understudy
