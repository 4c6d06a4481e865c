#include "ctrl/config/toml/toml_tree.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <string_view>
#include <toml.hpp>

#include "ctrl/config/toml/toml_guard.h"
#include "ctrl/config/toml/toml_hint.h"

namespace understudy {
namespace {

// Debian 12 has version 3 of the library, Debian 13 version 4.
#if TOML11_VERSION_MAJOR >= 4
unsigned line_of(const toml::source_location& where) {
  return static_cast<unsigned>(where.first_line_number());
}
const std::string& text_of(const toml::value& value) { return value.as_string(); }

struct Lines {
  unsigned of(const toml::value& value) { return line_of(value.location()); }
};

toml::value parse(const std::string& text) {
  const std::string plain = without_hashes(text, false);
  if (plain.find('#') != std::string::npos) {
    std::istringstream first(without_hashes(text, true));
    (void)toml::parse(first, "configuration");  // what is wrong is found here
  }
  std::istringstream stream(plain);
  return toml::parse(stream, "configuration");
}
#else
unsigned line_of(const toml::source_location& where) { return static_cast<unsigned>(where.line()); }
const std::string& text_of(const toml::value& value) { return value.as_string().str; }

/// The lines in which values begin. The library counts them from the beginning of the text for each
/// value, which takes minutes for a long one.
class Lines {
 public:
  unsigned of(const toml::value& value) {
    const auto* region = dynamic_cast<const toml::detail::region*>(toml::detail::get_region(value));
    if (region == nullptr) return line_of(value.location());
    if (ends_.empty()) {
      for (auto at = region->begin(); at != region->end(); ++at) {
        if (*at == '\n') ends_.push_back(at - region->begin());
      }
    }
    const auto before = std::ranges::lower_bound(ends_, region->first() - region->begin());
    return static_cast<unsigned>(before - ends_.begin()) + 1;
  }

 private:
  std::vector<std::ptrdiff_t> ends_;  ///< of lines, in the text that all values are of
};

toml::value parse(const std::string& text) {
  std::istringstream stream(text);
  return toml::parse(stream, "configuration");
}
#endif

TomlNode convert(const toml::value& value, Lines& lines) {
  TomlNode node;
  node.line = lines.of(value);
  switch (value.type()) {
    case toml::value_t::table:
      node.kind = TomlNode::Kind::kTable;
      for (const auto& [key, child] : value.as_table()) {
        node.children.push_back(convert(child, lines));
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
      for (const toml::value& child : value.as_array())
        node.children.push_back(convert(child, lines));
      break;
    case toml::value_t::string:
      node.kind = TomlNode::Kind::kString;
      node.text = text_of(value);
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

/// Messages have no line of the file below them to which "here" would point.
bool says_something(const std::string& remark) { return !remark.empty() && remark != "here"; }

#if TOML11_VERSION_MAJOR >= 4
/// A title has the form "toml::function: text", a place a remark.
TomlSyntaxError error_of(const toml::exception& e) {
  const auto* syntax = dynamic_cast<const toml::syntax_error*>(&e);
  if (syntax == nullptr || syntax->errors().empty()) return {0, e.what()};
  const toml::error_info& first = syntax->errors().front();
  TomlSyntaxError error{0, first.title()};
  if (error.text.starts_with("toml::")) error.text.erase(0, error.text.find(": ") + 2);
  if (first.locations().empty()) return error;
  const auto& [where, remark] = first.locations().front();
  error.line = line_of(where);
  if (says_something(remark)) error.text += " (" + remark + ")";
  return error;
}
#else
/// The library's message has the form "[error] toml::function: text", the source lines, and a
/// marker "^--- remark"; text and remark are what a user needs.
std::string shorten(const std::string& what) {
  std::string text = what.substr(0, what.find('\n'));
  constexpr std::string_view kError = "[error] ";
  if (text.starts_with(kError)) text.erase(0, kError.size());
  const size_t function = text.find("toml::");
  if (function != std::string::npos) {
    const size_t colon = text.find(": ", function);
    if (colon != std::string::npos) text.erase(0, colon + 2);
  }
  constexpr std::string_view kMarker = "^--- ";
  const size_t marker = what.find(kMarker);
  if (marker != std::string::npos) {
    const size_t begin = marker + kMarker.size();
    const std::string remark = what.substr(begin, what.find('\n', begin) - begin);
    if (says_something(remark)) text += " (" + remark + ")";
  }
  return text;
}

TomlSyntaxError error_of(const toml::exception& e) {
  return {line_of(e.location()), shorten(e.what())};
}
#endif

}  // namespace

tl::expected<TomlNode, TomlSyntaxError> parse_toml(const std::string& text) {
  if (auto excess = find_unsafe(text)) return tl::unexpected(*excess);
  try {
    Lines lines;
    return convert(parse(text), lines);
  } catch (const toml::exception& e) {
    TomlSyntaxError error = error_of(e);
    const std::string hint = syntax_hint(text, error.line);
    if (!hint.empty()) error.text += ": " + hint;
    return tl::unexpected(std::move(error));
  } catch (const std::exception& e) {
    return tl::unexpected(TomlSyntaxError{0, e.what()});
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
