// Mutated configurations: the reader answers every text with a value or with errors that have a
// line and a message. Deterministic; the open-ended search is tests/fuzz/config_fuzz.cc.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ctrl/config/load.h"
#include "tests/ctrl_config_sample.h"

namespace understudy {
namespace {

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

TEST(ConfigMutation, EveryTextGivesAValueOrErrors) {
  constexpr int kRounds = 1'500;
  Mutator mutator(20'240'607);
  int good = 0;
  int semantic = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string text = mutator.mutate(kSampleConfig);
    const ConfigResult result = load_config_text(text, "m");
    if (result) {
      ++good;
      EXPECT_FALSE(result->nodes.empty()) << text;
      continue;
    }
    ASSERT_FALSE(result.error().empty()) << text;
    for (const ConfigError& error : result.error()) {
      EXPECT_FALSE(error.allowed.empty()) << text;
      EXPECT_GT(error.line, 0u) << error.text() << "\n" << text;
      if (!error.key.empty()) ++semantic;
    }
  }
  // The search reaches past the parser and is not stuck in one outcome.
  EXPECT_GT(good, kRounds / 100);
  EXPECT_GT(semantic, kRounds / 10);
}

TEST(ConfigMutation, CutOffAnywhere) {
  const std::string sample = kSampleConfig;
  for (size_t length = 0; length < sample.size(); length += 3) {
    const ConfigResult result = load_config_text(sample.substr(0, length), "p");
    if (!result) {
      EXPECT_FALSE(result.error().empty()) << length;
    }
  }
}

}  // namespace
}  // namespace understudy
