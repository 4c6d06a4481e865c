// Several queue pairs for each connection of a job without real nodes: its messages go by several
// paths, in parts or in turn.
#include "tests/ctrl/run/simulate_rig.h"

namespace understudy {
namespace {

/// Two nodes on a leaf each; eight spines, whose cables are an eighth as fast as the NICs'.
std::string text_of(const std::string& job, const std::string& fabric = "") {
  return "format = 1\n[fabric]\n" + fabric +
         "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n[[node]]\nname = \"w\"\ncount = 2\n"
         "link = { rate = \"80Gbit/s\", latency = \"1us\" }\n"
         "[topology]\nkind = \"leaf_spine\"\nhosts_per_leaf = 1\nspines = 8\n"
         "uplink = { rate = \"10Gbit/s\", latency = \"1us\" }\n"
         "[[job]]\nname = \"j\"\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n"
         "ranks = [\"w*\"]\nsizes = [\"8MiB\"]\n" +
         job;
}

/// Microseconds of the job's only operation, and how many cables to spines carried anything.
std::pair<double, size_t> measured(const std::string& text) {
  const RunReport report = simulated(config_of(text));
  if (!report.traffic || report.traffic->jobs.size() != 1) return {};
  size_t used = 0;
  for (const auto& link : report.traffic->links) {
    used += link.name.starts_with("leaf0 -> spine") && link.wire_bytes > 0 ? 1 : 0;
  }
  return {report.traffic->jobs[0].operations[0].longest.microseconds(), used};
}

TEST(QueuePairs, MessagesTakeSeveralPaths) {
  for (const char* fabric : {"", "fidelity = \"flow\"\n"}) {
    SCOPED_TRACE(fabric);
    const auto [one, one_path] = measured(text_of("", fabric));
    for (const char* split : {"true", "false"}) {
      const auto [several, paths] =
          measured(text_of("queue_pairs = 8\nsplit_data = " + std::string(split) + "\n", fabric));
      EXPECT_GT(paths, one_path + 1) << split;
      // Paths are drawn: several queue pairs may meet on one, never all.
      EXPECT_LT(several, one * 0.8) << split;
    }
  }
}

TEST(QueuePairs, OnOnePathTheyChangeLittle) {
  std::string text = text_of("");
  text.replace(text.find("spines = 8"), 10, "spines = 1");
  const double one = measured(text).first;
  for (const char* split : {"true", "false"}) {
    const double several = measured(text + "queue_pairs = 4\nsplit_data = " + split + "\n").first;
    EXPECT_NEAR(several, one, one * 0.03) << split;
  }
}

TEST(QueuePairs, SplitDataNeedsThem) {
  const auto config = load_config_text(text_of("split_data = true\n"), "t.toml");
  ASSERT_FALSE(config);
  EXPECT_NE(describe(config.error()).find("job.split_data"), std::string::npos);
}

}  // namespace
}  // namespace understudy
