// Bad input: what is wrong with a file as a whole. Tables: ctrl_config_bad_*_test.cc.
#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

TEST(ConfigBad, AllErrorsAtOnceInOrderOfLines) {
  const std::string text =
      "format = 3\n"
      "colour = 1\n"
      "[fabric]\n"
      "mtu = 1000\n"
      "[[node]]\n"
      "name = \"a\"\n"
      "count = 2\n"
      "link = { rate = 1, latency = \"1 parsec\" }\n"
      "[[service]]\n"
      "node = \"b\"\n"
      "port = 0\n"
      "[[job]]\n"
      "name = \"j\"\n";
  const ConfigResult result = load_config_text(text, "f");
  ASSERT_FALSE(result);
  std::string seen;
  for (const ConfigError& error : result.error()) {
    seen += std::to_string(error.line) + " " + error.key + "\n";
  }
  EXPECT_EQ(seen,
            "1 format\n2 colour\n4 fabric.mtu\n8 node.link.rate\n8 node.link.latency\n"
            "10 service.node\n11 service.port\n12 job.collective\n12 job.ranks\n12 job.sizes\n");
}

TEST(ConfigBad, ASyntaxErrorSaysWhatToDoIfItIsACommonOne) {
  const struct {
    const char* line;
    const char* words;  ///< at the end; empty: no hint
  } cases[] = {
      {"name = allreduce", ": a text stands in quotes, as in name = \"allreduce\""},
      {"name = all reduce # all", ": a text stands in quotes, as in name = \"all reduce\""},
      {"rate = 100Gbit/s", ": a text stands in quotes, as in rate = \"100Gbit/s\""},
      {"at = -1ms", ": a text stands in quotes, as in at = \"-1ms\""},
      {"wait = 10 ms", ": a text stands in quotes, as in wait = \"10 ms\""},
      {"link = { rate = 1Gbit/s, latency = \"1us\" }",
       ": a text stands in quotes, as in rate = \"1Gbit/s\""},
      {"link = { rate = \"1Gbit/s\", latency = 1us }",
       ": a text stands in quotes, as in latency = \"1us\""},
      {"ranks = [gpu, \"w*\"]", ": a text stands in quotes, as in \"gpu\""},
      {"ranks = [\"gpu\", w]", ": a text stands in quotes, as in \"w\""},
      {"real = True", ": true and false are written in small letters"},
      {"name = \"allreduce", ": the text that begins with \"allreduce has no closing \""},
      {"name = 'allreduce", ": the text that begins with 'allreduce has no closing '"},
      {"ranks = [\"gpu\", \"w*]", ": the text that begins with \"w*] has no closing \""},
      {"name = \"a\\\"", ": the text that begins with \"a\\\" has no closing \""},
      {"x = 1 2", ""},
      {"x = 05", ""},
      {"x = [1, 2", ""},
      {"a b = 1", ""},
      {"[[node]", ""},
      {"x = \"\"\"abc", ""},
      {"x = { y = 1e3, z = 0x1f, t = 2020-01-01, u = -inf, v = true, w = }", ""},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.line);
    const ConfigResult result = load_config_text(std::string("format = 1\n") + c.line + "\n", "f");
    ASSERT_FALSE(result);
    const std::string text = result.error()[0].text();
    EXPECT_EQ(text.find("[error]"), std::string::npos) << text;
    EXPECT_EQ(text.find("(here)"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with(c.words)) << text;
    if (*c.words == '\0') {
      EXPECT_EQ(text.find("quotes"), std::string::npos) << text;
      EXPECT_EQ(text.find("closing"), std::string::npos) << text;
    }
  }
}

TEST(ConfigBad, SyntaxErrorStandsAlone) {
  const struct {
    const char* text;
    unsigned line;
    const char* words;
    const char* since_version_4 = nullptr;  ///< what toml11 says there; null: the same
  } cases[] = {
      {"format = 9\nseed = \n", 2, "missing value", "unknown value"},
      {"format = 1\n[fabric]\nmtu = 1\nmtu = 2\n", 4, "already exists"},
      {"format = 1\n[[node]\n", 2, "invalid key", "invalid array-table key"},
      {"format = 1\n\nseed = \"abc\n", 3, "string"},
      {"format = 1\n[a]\n[a]\n", 3, "already exists", "already defined"},
      {"format = 1\n# caf\xe9\n", 2, "not valid UTF-8"},
      {"format = 1\n# \xed\xa0\x80\n", 2, "not valid UTF-8"},
      {"\xc0\xaf", 1, "not valid UTF-8"},
  };
  for (const auto& bad : cases) {
    const ConfigResult result = load_config_text(bad.text, "f");
    ASSERT_FALSE(result) << bad.text;
    ASSERT_EQ(result.error().size(), 1u) << describe(result.error());
    EXPECT_EQ(result.error()[0].line, bad.line) << describe(result.error());
    const std::string text = result.error()[0].text();
    const bool other =
        bad.since_version_4 != nullptr && text.find(bad.since_version_4) != std::string::npos;
    EXPECT_TRUE(other || text.find(bad.words) != std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(text.find("toml::"), std::string::npos) << text;
  }
}

/// Wherever there is a "#", an error ends the reading.
TEST(ConfigBad, ErrorsBesideCommentsAreFound) {
  for (const char* text :
       {"# \x01\nseed = {\"a\"\n", "seed = [1 2, # b\n3]\n", "seed = [1 2, \"a\\\" # b\"]\n",
        "seed = { a = 1 2 # b\n}\n", "[a]\n# b\nseed = = 3 # c\n[b]\n"}) {
    const ConfigResult result = load_config_text(text, "f");
    ASSERT_FALSE(result) << text;
    ASSERT_EQ(result.error().size(), 1u) << describe(result.error());
  }
}

TEST(ConfigBad, NestingAndSizeAreBounded) {
  const std::string deep = "a = " + std::string(100'000, '[');
  EXPECT_EQ(errors_of(deep), "f:1: more than 64 levels of brackets\n");
  std::string dotted = "format = 1\na";
  for (int i = 0; i < 100'000; ++i) dotted += ".a";
  EXPECT_EQ(errors_of(dotted + " = 1"), "f:2: more than 64 dots in a line\n");
  EXPECT_EQ(errors_of("#" + std::string(1 << 20, 'x')), "f: the file is larger than 1 MiB\n");
  // Brackets and dots in texts and comments are no nesting.
  const std::string harmless = "\nname = \"" + std::string(200, '[') + std::string(200, '.') +
                               "\" # " + std::string(200, '{');
  EXPECT_EQ(errors_of("format = 1" + harmless).find("more than 64"), std::string::npos);
}

TEST(ConfigBad, MessagesStayOneLine) {
  const std::string text = errors_of("format = \"\\u001b[2J\\n\"\n\"a\\nb\" = 1\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;  // format, a?b, no node
  EXPECT_NE(text.find("found \"?[2J?\""), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST(ConfigBad, TablesOfTheWrongShape) {
  EXPECT_NE(errors_of("format = 1\n[node]\nname = \"a\"\n")
                .find("f:2: node: found a table: expected an array of tables: write [[node]]\n"),
            std::string::npos);
  EXPECT_EQ(errors_of("format = 1\n"),
            "f:1: node: found nothing: the key is missing: a configuration needs at least one "
            "[[node]]\n");
}

TEST(ConfigBad, FilesThatCannotBeRead) {
  const std::string missing = testing::TempDir() + "understudy_no_such_file.toml";
  const ConfigResult result = load_config(missing);
  ASSERT_FALSE(result);
  EXPECT_EQ(describe(result.error()), missing + ": cannot open: No such file or directory\n");
  const ConfigResult folder = load_config(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_EQ(describe(folder.error()), testing::TempDir() + ": cannot read: Is a directory\n");
  const ConfigResult endless = load_config("/dev/zero");
  ASSERT_FALSE(endless);
  EXPECT_EQ(describe(endless.error()), "/dev/zero: the file is larger than 1 MiB\n");
}

}  // namespace
}  // namespace understudy
