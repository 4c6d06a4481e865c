// [[job]] order, compute, injected_delay and jitter: what is read, and what is refused with file
// and line.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

constexpr char kJob[] =
    "format = 1\n"
    "[[node]]\nname = \"w\"\ncount = 3\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
    "[[job]]\nname = \"step\"\ncollective = \"all_reduce\"\nranks = [\"w*\"]\n"
    "sizes = [\"1KiB\", \"2KiB\"]\niterations = 2\nwarmup = 1\n";

ConfigResult load(const std::string& keys, const std::map<std::string, std::string>& files = {}) {
  const FileReader reader = [files](const std::string& path,
                                    size_t) -> tl::expected<std::string, ConfigError> {
    const auto file = files.find(path);
    if (file == files.end()) {
      return tl::unexpected(ConfigError{path, 0, "", "", "cannot open"});
    }
    return file->second;
  };
  return load_config_text(kJob + keys, "dir/f.toml", reader);
}

IterationConfig read(const std::string& keys,
                     const std::map<std::string, std::string>& files = {}) {
  const ConfigResult result = load(keys, files);
  if (!result) {
    ADD_FAILURE() << describe(result.error());
    return {};
  }
  return result->jobs.at(0).iteration;
}

TEST(ConfigIteration, NothingIsTheDefault) {
  const IterationConfig iteration = read("");
  EXPECT_FALSE(iteration.stated());
  EXPECT_FALSE(read("order = \"size\"\n").whole);
  EXPECT_EQ(iteration.injected_delay, Duration());
  EXPECT_FALSE(iteration.jitter);
}

TEST(ConfigIteration, EveryKeyIsRead) {
  const IterationConfig iteration = read(
      "order = \"iteration\"\ninjected_delay = \"2ms\"\n"
      "jitter = { distribution = \"normal\", mean = \"5us\", deviation = \"1us\" }\n"
      "compute = { before = [\"3ms\", \"1ms\"], beside = \"4ms\", after = \"2ms\","
      "overlap = true, slow = [ { rank = 1, factor = 1.5 } ] }\n");
  EXPECT_TRUE(iteration.whole);
  EXPECT_EQ(iteration.injected_delay, Duration::ms(2));
  ASSERT_TRUE(iteration.jitter);
  EXPECT_EQ(iteration.jitter->kind, Jitter::Kind::kNormal);
  EXPECT_EQ(iteration.jitter->low, Duration::us(5));
  EXPECT_EQ(iteration.jitter->high, Duration::us(1));
  EXPECT_EQ(iteration.compute, (std::vector<Duration>{Duration::ms(3), Duration::ms(1)}));
  EXPECT_EQ(iteration.columns, 1u);
  EXPECT_EQ(iteration.beside, Duration::ms(4));
  EXPECT_EQ(iteration.after, Duration::ms(2));
  EXPECT_TRUE(iteration.overlap);
  EXPECT_EQ(iteration.factor, (std::vector<double>{1, 1.5, 1}));
}

TEST(ConfigIteration, SlowNodesByName) {
  const auto factor = [](const std::string& slow) {
    return read("compute = { before = \"1ms\", slow = [ " + slow + " ] }\n").factor;
  };
  EXPECT_EQ(factor("{ node = \"w1\", factor = 1.5 }"), (std::vector<double>{1, 1.5, 1}));
  EXPECT_EQ(factor("{ node = \"w2\", factor = 3 }, { rank = 0, factor = 2 }"),
            (std::vector<double>{2, 1, 3}));
  EXPECT_EQ(factor("{ node = \"w*\", factor = 2 }"), (std::vector<double>{2, 2, 2}));
}

TEST(ConfigIteration, DistributionsHaveTheirOwnKeys) {
  const auto jitter = [](const std::string& keys) {
    return read("jitter = { distribution = " + keys + " }\n").jitter.value_or(Jitter{});
  };
  EXPECT_EQ(jitter("\"uniform\", from = \"1us\", to = \"3us\"").high, Duration::us(3));
  EXPECT_EQ(jitter("\"exponential\", mean = \"7us\"").low, Duration::us(7));
  EXPECT_EQ(jitter("\"lognormal\", median = \"7us\", sigma = 0.25").sigma, 0.25);
}

TEST(ConfigIteration, ComputeTimesComeFromATable) {
  const std::string keys = "compute = { file = \"c.csv\" }\n";
  const IterationConfig one = read(keys, {{"dir/c.csv", "# ms\ncompute\n3ms\n\n1.5ms\r\n"}});
  EXPECT_EQ(one.compute, (std::vector<Duration>{Duration::ms(3), Duration::us(1500)}));
  const IterationConfig ranks =
      read(keys, {{"dir/c.csv", "0, 1, 2\n1us, 2us, 3us\n4us,5us,6us\n"}});
  EXPECT_EQ(ranks.columns, 3u);
  EXPECT_EQ(ranks.compute.size(), 6u);
  const IterationConfig all = read("order = \"iteration\"\n" + keys,
                                   {{"dir/c.csv", "compute\n1us\n2us\n3us\n4us\n5us\n6us\n"}});
  EXPECT_EQ(all.compute.size(), 6u);
}

struct Wrong {
  std::string keys, table;
  std::string key;
  std::vector<std::string> words;
};

TEST(ConfigIteration, WhatIsWrongIsNamed) {
  const Wrong cases[] = {
      {"order = \"step\"", "", "job.order", {"expected one of size, iteration"}},
      {"injected_delay = 2", "", "job.injected_delay", {"bare number"}},
      {"jitter = { mean = \"1us\" }", "", "job.jitter.distribution", {"missing"}},
      {"jitter = { distribution = \"gamma\" }",
       "",
       "job.jitter.distribution",
       {"uniform, normal, exponential, lognormal"}},
      {"jitter = { distribution = \"normal\", mean = \"1us\" }",
       "",
       "job.jitter.deviation",
       {"missing"}},
      {"jitter = { distribution = \"uniform\", from = \"3us\", to = \"2us\" }",
       "",
       "job.jitter.to",
       {"less than from"}},
      {"jitter = { distribution = \"exponential\", mean = \"2h\" }",
       "",
       "job.jitter.mean",
       {"unit"}},
      {"jitter = { distribution = \"exponential\", mean = \"3601s\" }",
       "",
       "job.jitter.mean",
       {"at most an hour"}},
      {"jitter = { distribution = \"lognormal\", median = \"2us\", sigma = nan }",
       "",
       "job.jitter.sigma",
       {"0 to 10"}},
      {"jitter = { distribution = \"exponential\", mean = \"2us\", deviation = \"1us\" }",
       "",
       "job.jitter.deviation",
       {"unknown key"}},
      {"compute = { before = [\"1us\", \"2us\", \"3us\"] }",
       "",
       "job.compute.before",
       {"3 times", "each of the 2 sizes", "each of the 6 operations"}},
      {"compute = { before = [] }", "", "job.compute.before", {"0 times"}},
      {"compute = { before = [1] }", "", "job.compute.before", {"bare number"}},
      {"compute = { before = \"1us\", file = \"c.csv\" }",
       "",
       "job.compute.file",
       {"by before, or"}},
      {"compute = { file = \"none.csv\" }", "", "job.compute.file", {"cannot open"}},
      {"compute = { beside = \"1us\" }", "", "job.compute.beside", {"without overlap"}},
      {"compute = { slow = [ { rank = 3, factor = 2 } ] }",
       "",
       "job.compute.slow.rank",
       {"0 to 2"}},
      {"compute = { slow = [ { rank = 1, factor = -1 } ] }",
       "",
       "job.compute.slow.factor",
       {"0 to 1000"}},
      {"compute = { slow = [ { rank = 1, factor = 2 }, { rank = 1, factor = 3 } ] }",
       "",
       "job.compute.slow.rank",
       {"twice"}},
      {"compute = { slow = [ { node = \"v1\", factor = 2 } ] }",
       "",
       "job.compute.slow.node",
       {"v1"}},
      {"compute = { slow = [ { node = \"w1\", factor = 2 }, { rank = 1, factor = 3 } ] }",
       "",
       "job.compute.slow.rank",
       {"twice"}},
      {"compute = { slow = [ { node = \"w1\", rank = 1, factor = 2 } ] }",
       "",
       "job.compute.slow.node",
       {"either rank or node"}},
      {"compute = { slow = [ { factor = 2 } ] }", "", "job.compute.slow.rank", {"missing"}},
      {"compute = { before = \"80000s\" }", "", "job.compute.before", {"86400s"}},
      {"compute = { file = \"c.csv\" }", "time\n1us\n", "", {"expected a header: compute"}},
      {"compute = { file = \"c.csv\" }", "0,1\n1us,1us\n", "", {"all 3 ranks"}},
      {"compute = { file = \"c.csv\" }", "0,1,2\n1us,1us\n", "", {"2 cells", "3 columns"}},
      {"compute = { file = \"c.csv\" }", "compute\n1us\nsoon\n", "0", {"found \"soon\""}},
      {"compute = { file = \"c.csv\" }", "compute\n", "", {"no times"}},
      {"compute = { file = \"c.csv\" }",
       "compute\n1us\n2us\n3us\n",
       "job.compute.file",
       {"3 times"}},
  };
  for (const Wrong& wrong : cases) {
    SCOPED_TRACE(wrong.keys + " " + wrong.table);
    const ConfigResult result = load(wrong.keys + "\n", {{"dir/c.csv", wrong.table}});
    ASSERT_FALSE(result);
    ASSERT_EQ(result.error().size(), 1u) << describe(result.error());
    const ConfigError& error = result.error()[0];
    EXPECT_EQ(error.key, wrong.key);
    const bool in_table = !wrong.key.starts_with("job");
    EXPECT_EQ(error.file, in_table ? "dir/c.csv" : "dir/f.toml");
    for (const std::string& word : wrong.words) {
      EXPECT_NE(error.text().find(word), std::string::npos) << error.text();
    }
  }
}

}  // namespace
}  // namespace understudy
