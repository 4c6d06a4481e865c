// Mutated configurations: the reader answers every text with a value or with errors that have a
// line and a message. Deterministic; the open-ended search is tests/fuzz/config_fuzz.cc.
#include <gtest/gtest.h>

#include <string>

#include "ctrl/config/read/load.h"
#include "tests/ctrl/config/mutator.h"
#include "tests/ctrl/config/sample.h"
#include "tests/extent.h"

namespace understudy {
namespace {

TEST(ConfigMutation, EveryTextGivesAValueOrErrors) {
  const int rounds = every_case() ? 1'500 : 500;
  Mutator mutator(20'240'607);
  int good = 0;
  int semantic = 0;
  for (int round = 0; round < rounds; ++round) {
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
  EXPECT_GT(good, rounds / 100);
  EXPECT_GT(semantic, rounds / 10);
}

TEST(ConfigMutation, CutOffAnywhere) {
  const std::string sample = kSampleConfig;
  for (size_t length = 0; length < sample.size(); length += every_case() ? 3 : 11) {
    const ConfigResult result = load_config_text(sample.substr(0, length), "p");
    if (!result) {
      EXPECT_FALSE(result.error().empty()) << length;
    }
  }
}

}  // namespace
}  // namespace understudy
