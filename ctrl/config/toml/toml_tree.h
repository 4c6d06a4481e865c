// A TOML document as a plain tree with line numbers. The parser library is used in one translation
// unit only; its exceptions end there.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace understudy {

struct TomlNode {
  enum class Kind { kTable, kArray, kString, kInteger, kFloat, kBoolean, kDateTime };
  Kind kind = Kind::kTable;
  unsigned line = 0;
  std::string key;  ///< in a table; empty in an array
  std::string text;
  int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  std::vector<TomlNode> children;  ///< of a table or array, in the order of the file

  /// The value as messages show it, shortened.
  std::string describe() const;
};

struct TomlSyntaxError {
  unsigned line = 0;
  std::string text;
};

/// Parses a document; its root is a table. What toml_guard.h rules out is an error too.
tl::expected<TomlNode, TomlSyntaxError> parse_toml(const std::string& text);

}  // namespace understudy
