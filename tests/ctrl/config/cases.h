// Cases of bad configurations: the sample with one thing wrong, and what must be said about it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/read/load.h"
#include "tests/ctrl/config/sample.h"

namespace understudy {

/// The sample with the first `from` after `section` replaced by `to`. The one error must stand in
/// the line that contains "#!" (a comment), and hold `key` and all of `words`.
struct BadCase {
  const char* section;
  const char* from;
  const char* to;
  const char* key;
  std::vector<const char*> words;
};

inline std::string edited(const BadCase& bad) {
  std::string text = kSampleConfig;
  const size_t section = text.find(bad.section);
  const size_t at = section == std::string::npos ? section : text.find(bad.from, section);
  if (at == std::string::npos) {
    ADD_FAILURE() << "the sample lacks " << bad.section << " " << bad.from;
    return text;
  }
  return text.replace(at, std::string_view(bad.from).size(), bad.to);
}

inline unsigned marked_line(const std::string& text) {
  const size_t mark = text.find("#!");
  EXPECT_NE(mark, std::string::npos) << "no mark in the case";
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(mark, text.size()));
  return static_cast<unsigned>(std::count(text.begin(), end, '\n') + 1);
}

/// Each case gives one error, which names the line, the key and the words.
inline void expect_errors(std::span<const BadCase> cases) {
  for (const BadCase& bad : cases) {
    SCOPED_TRACE(bad.to);
    const std::string text = edited(bad);
    const ConfigResult result = load_config_text(text, "bad.toml");
    EXPECT_FALSE(result) << "accepted";
    if (result) continue;
    const std::vector<ConfigError>& errors = result.error();
    EXPECT_EQ(errors.size(), 1u) << describe(errors);
    EXPECT_EQ(errors[0].file, "bad.toml");
    EXPECT_EQ(errors[0].key, bad.key) << describe(errors);
    EXPECT_EQ(errors[0].line, marked_line(text)) << describe(errors);
    for (const char* words : bad.words) {
      EXPECT_NE(errors[0].text().find(words), std::string::npos)
          << "\"" << words << "\" is not in: " << errors[0].text();
    }
  }
}

/// The texts of all errors, or "" if the configuration is good.
inline std::string errors_of(const std::string& text) {
  const ConfigResult result = load_config_text(text, "f");
  return result ? "" : describe(result.error());
}

}  // namespace understudy
