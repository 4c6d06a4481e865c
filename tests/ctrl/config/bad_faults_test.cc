// Bad input: faults and scenarios.
#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

const BadCase kCases[] = {
    // Faults.
    {"[[fault]]",
     "[[fault]]\nname = \"late\"\naction = \"delay\"",
     "[[fault]]#!",
     "fault.action",
     {"missing", "drop, duplicate"}},
    {"[[fault]]",
     "\"delay\"",
     "\"delai\"#!",
     "fault.action",
     {"did you mean \"delay\"", "one of drop, duplicate, reorder"}},
    {"[[fault]]", "\"to_real\"", "\"real\"#!", "fault.direction", {"to_real, from_real, both"}},
    {"[[fault]]", "node = \"w1\"", "node = \"w9\"#!", "fault.node", {"there is no node"}},
    {"[[fault]]", "node = \"w1\"", "node = \"gpu\"#!", "fault.node", {"emulated end"}},
    {"[[fault]]", "queue_pair = 2", "queue_pair = 0#!", "fault.queue_pair", {"from 1"}},
    {"[[fault]]", "\"read_response\"", "\"reads\"#!", "fault.packets", {"did you mean \"read\""}},
    {"[[fault]]", "psn = 5", "psn = 16777216#!", "fault.psn", {"0 to 16777215"}},
    {"[[fault]]", "round = 3", "round = 0#!", "fault.round", {"from 1"}},
    {"[[fault]]", "to = \"2ms\"", "to = \"1ms\"#!", "fault.to", {"a time after from"}},
    {"[[fault]]", "nth = 7", "nth = 0#!", "fault.nth", {"from 1"}},
    {"[[fault]]", "every = 7", "every = 0#!", "fault.every", {"from 1"}},
    {"[[fault]]", "0.25", "0#!", "fault.probability", {"above 0 and at most 1"}},
    {"[[fault]]", "0.25", "1.5#!", "fault.probability", {"1.5", "above 0 and at most 1"}},
    {"[[fault]]", "max = 4", "max = 0#!", "fault.max", {"from 1"}},
    {"[[fault]]",
     "[[fault]]\naction = \"duplicate\"\ncopies = 3",
     "[[fault]]#!\naction = \"delay\"",
     "fault.delay",
     {"missing"}},
    {"[[fault]]",
     "delay = \"30us\"",
     "delay = \"30us\"\ncopies = 1#!",
     "fault.copies",
     {"belongs to action = \"duplicate\" only"}},
    {"[[fault]]", "copies = 3", "copies = 17#!", "fault.copies", {"1 to 16"}},
    {"[[fault]]",
     "copies = 3",
     "behind = 3#!",
     "fault.behind",
     {"belongs to action = \"reorder\""}},
    {"[[fault]]", "icrc = \"good\"", "icrc = \"ok\"#!", "fault.icrc", {"one of bad, good"}},
    {"[[fault]]", "icrc = \"good\"", "delay = \"1us\"#!", "fault.delay", {"duplicate and reorder"}},
    {"[[fault]]",
     "behind = 2",
     "icrc = \"good\"#!",
     "fault.icrc",
     {"belongs to action = \"corrupt\""}},
};

TEST(ConfigBadFaults, EachCaseGivesItsOneError) { expect_errors(kCases); }

TEST(ConfigBadFaults, Scenarios) {
  const auto config = load_config_text(kSampleConfig, "good.toml");
  ASSERT_TRUE(config);
  const auto errors = [&](const std::string& text) {
    const ConfigResult result = load_scenario_text(*config, text, "s");
    return result ? "" : describe(result.error());
  };
  EXPECT_EQ(errors("format = 1\n"), "");
  EXPECT_NE(errors("[[fault]]\naction = \"drop\"\n").find("s:1: format: found nothing"),
            std::string::npos);
  EXPECT_NE(errors("format = 1\n[[node]]\nname = \"x\"\n").find("s:2: node: found an unknown key"),
            std::string::npos);
  EXPECT_NE(errors("format = 1\n[[fault]]\naction = \"drop\"\nnode = \"w7\"\n")
                .find("s:4: fault.node: found \"w7\""),
            std::string::npos);
  EXPECT_NE(errors("format = = 1\n").find("s:1: "), std::string::npos);
  const ConfigResult missing = load_scenario(*config, "/no/such/file");
  ASSERT_FALSE(missing);
  EXPECT_EQ(describe(missing.error()), "/no/such/file: cannot open: No such file or directory\n");
}

}  // namespace
}  // namespace understudy
