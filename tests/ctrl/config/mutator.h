// Changes texts at random, deterministically: bytes, pieces of TOML, whole values.
#pragma once

#include <iterator>
#include <random>
#include <string>
#include <utility>

namespace understudy {

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    for (size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) edit(text);
    return text;
  }

 private:
  size_t below(size_t n) { return random_() % n; }

  void edit(std::string& text) {
    static constexpr const char* kPieces[] = {
        "[",          "]",      "{",       "}",      "\"",       "'",       "\"\"\"",
        "=",          ".",      ",",       "\n",     "#",        "\\",      "[[",
        "]]",         "*",      "-1",      "0",      "1",        "nan",     "inf",
        "1e9",        "65536",  "[]",      "true",   "\"w*\"",   "w*",      "\"solo\"",
        "{}",         "x",      " ",       "\xff",   "[[node]]", "[[job]]", "9223372036854775807",
        "1979-05-27", "\"0B\"", "\"1ps\"", "\"::\"", "\"1TiB\""};
    const size_t at = below(text.size());
    const size_t length = std::min<size_t>(below(24), text.size() - at);
    switch (below(5)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 2:
        text.insert(below(text.size()), text.substr(at, 4 * length));
        break;
      case 3:
        text[at] = static_cast<char>(below(256));
        break;
      default:
        swap_values(text);
        break;
    }
  }

  /// Puts one line's value in place of another's: well-formed texts that are wrong elsewhere.
  void swap_values(std::string& text) {
    const std::string value = value_at(text, below(text.size())).second;
    const auto [at, old] = value_at(text, below(text.size()));
    if (at != std::string::npos) text.replace(at, old.size(), value);
  }

  static std::pair<size_t, std::string> value_at(const std::string& text, size_t from) {
    const size_t equals = text.find("= ", from);
    if (equals == std::string::npos) return {equals, "1"};
    return {equals + 2, text.substr(equals + 2, text.find('\n', equals) - equals - 2)};
  }

  std::mt19937 random_;
};

}  // namespace understudy
