// [[job]] with child_of: the communicators that it stands for, and what is wrong with one.
#include <gtest/gtest.h>

#include "ctrl/config/merged_nics.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

/// Four nodes of two GPUs and NICs; the second one is real.
std::string with_child(const std::string& child, const std::string& parent = {}) {
  const auto node = [&](const std::string& name, const std::string& more) {
    return "[[node]]\nname = \"" + name + "\"\ngpus = 2\nnics = 2\n" +
           "link = { rate = \"10Gbit/s\", latency = \"1us\" }\n" + more;
  };
  return "format = 1\n[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/16\"\n[[prefix]]\nnic = 1\nv4 = "
         "\"10.10.0.0/16\"\n" +
         node("a", "") + node("gpu", "real = true\n") + node("w", "count = 2\n") +
         "[[port]]\nreal = \"gpu\"\nnic = 0\ndevice = \"a\"\n[[port]]\nreal = \"gpu\"\nnic = "
         "1\ndevice = \"b\"\n" +
         "[[job]]\nname = \"train\"\ncollective = \"all_reduce\"\nsizes = [\"4KiB\"]\nranks = "
         "[\"a\", \"gpu\", \"w*\"]\nchannels = 2\njoin = { file = \"uid\" }\n" +
         parent + child;
}

std::string child(const std::string& keys, const std::string& name = "tp") {
  return "[[job]]\nname = \"" + name +
         "\"\nchild_of = \"train\"\ncollective = \"all_reduce\"\nsizes = [\"8KiB\"]\n" + keys +
         "\n";
}

std::vector<uint32_t> ids(const std::vector<NodeId>& nodes) { return nodes; }

TEST(ConfigChild, HasWhatItsParentHas) {
  const auto config = load_config_text(
      with_child(child("members = [2, 3, 4, 5]"), "nccl = \"2.24\"\npayload = \"exact\"\n"), "f");
  ASSERT_TRUE(config) << describe(config.error());
  ASSERT_EQ(config->jobs.size(), 2U);
  const JobConfig& job = config->jobs[1];
  EXPECT_EQ(job.name, "tp");
  EXPECT_EQ(ids(job.ranks), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(job.gpus, 2U);
  EXPECT_EQ(job.nccl, NcclVersion{24});
  EXPECT_EQ(job.channels, 2U);
  EXPECT_EQ(job.payload, PayloadMode::kExact);
  ASSERT_TRUE(job.join);
  EXPECT_EQ(job.join->file, "uid");
  ASSERT_TRUE(job.child);
  EXPECT_EQ(job.child->job, 0U);
  EXPECT_EQ(job.child->members, (std::vector<uint32_t>{2, 3, 4, 5}));
}

/// One for each of the children of a split that have real and emulated ranks.
TEST(ConfigChild, StandsForAllOfItsSplit) {
  const auto rails = load_config_text(with_child(child("members = \"local_rank\"")), "f");
  ASSERT_TRUE(rails) << describe(rails.error());
  ASSERT_EQ(rails->jobs.size(), 3U);
  for (uint32_t gpu = 0; gpu < 2; ++gpu) {
    const JobConfig& job = rails->jobs[1 + gpu];
    EXPECT_EQ(job.name, "tp/" + std::to_string(gpu));
    EXPECT_EQ(ids(job.ranks), (std::vector<uint32_t>{0, 1, 2, 3}));
    EXPECT_EQ(job.gpus, 1U);
    EXPECT_EQ(job.nic, gpu);
    EXPECT_EQ(job.child->members, (std::vector<uint32_t>{gpu, 2 + gpu, 4 + gpu, 6 + gpu}));
  }
  const auto halves = load_config_text(with_child(child("members = \"/4\"")), "f");
  ASSERT_TRUE(halves) << describe(halves.error());
  ASSERT_EQ(halves->jobs.size(), 2U);  // the other half has no real rank
  EXPECT_EQ(halves->jobs[1].name, "tp");
}

/// Of nodes with several GPUs and NICs: which NICs the child's ranks take.
TEST(ConfigChild, OfSomeGpusOfEachNode) {
  struct Case {
    unsigned gpus, nics, merged;
    std::string members;
    unsigned nic, used, stride;  ///< used: 0 if it is refused
  };
  const Case cases[] = {
      {4, 4, 1, "[[0, 2, 4, 6]]", 0, 2, 2},
      {4, 4, 1, "[[1, 3, 5, 7]]", 1, 2, 2},
      {4, 4, 1, "[[2, 3, 6, 7]]", 2, 2, 1},
      {4, 2, 1, "[[0, 1, 4, 5]]", 0, 1, 1},
      {4, 2, 1, "[[1, 3, 5, 7]]", 0, 2, 1},
      {4, 8, 2, "[[1, 3, 5, 7]]", 2, 2, 4},
      {4, 4, 1, "[[3, 7]]", 3, 1, 1},
      {8, 8, 1, "[[0, 3, 6, 8, 11, 14]]", 0, 3, 3},
      {4, 4, 1, "[[0, 1, 3, 4, 5, 7]]", 0, 0, 0},
      {4, 2, 1, "[[0, 2, 3, 4, 6, 7]]", 0, 0, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.members);
    std::string text = "format = 1\n";
    for (unsigned nic = 0; nic < c.nics; ++nic) {
      text += "[[prefix]]\nnic = " + std::to_string(nic) + "\nv4 = \"10." + std::to_string(nic) +
              ".0.0/16\"\n[[port]]\nreal = \"a\"\nnic = " + std::to_string(nic) + "\ndevice = \"d" +
              std::to_string(nic) + "\"\n";
    }
    for (const char* head : {"name = \"a\"\nreal = true\n", "name = \"b\"\n"}) {
      text += "[[node]]\n" + std::string(head) + "gpus = " + std::to_string(c.gpus) +
              "\nnics = " + std::to_string(c.nics) +
              "\nlink = { rate = \"10Gbit/s\", latency = \"1us\" }\n";
    }
    text +=
        "[[job]]\nname = \"train\"\ncollective = \"all_reduce\"\nsizes = [\"4KiB\"]\nranks = "
        "[\"a\", \"b\"]\nchannels = 2\njoin = { file = \"uid\" }\n" +
        std::string(c.merged > 1 ? "merged_nics = " + std::to_string(c.merged) + "\n" : "") +
        child("members = " + c.members);
    const auto config = load_config_text(text, "f");
    ASSERT_EQ(config.has_value(), c.used != 0) << (config ? "" : describe(config.error()));
    if (!config) {
      EXPECT_NE(describe(config.error()).find("the NICs next to these"), std::string::npos);
      continue;
    }
    const JobConfig& job = config->jobs.at(1);
    EXPECT_EQ(job.nic, c.nic);
    EXPECT_EQ(used_nics(*config, job), c.used);
    for (uint32_t k = 0; k < c.used; ++k) {
      EXPECT_EQ(job_nic(*config, job, k), c.nic + k * c.stride) << k;
    }
  }
}

TEST(ConfigChild, OfAChild) {
  const std::string of =
      "[[job]]\nname = \"pair\"\nchild_of = \"half\"\nmembers = [[1, 3]]\n"
      "collective = \"all_reduce\"\nsizes = [\"8KiB\"]\n";
  const auto config =
      load_config_text(with_child(child("members = [4, 5, 2, 3]", "half") + of), "f");
  ASSERT_TRUE(config) << describe(config.error());
  ASSERT_EQ(config->jobs.size(), 3U);
  EXPECT_EQ(config->jobs[2].child->job, 0U);
  EXPECT_EQ(config->jobs[2].child->members, (std::vector<uint32_t>{5, 3}));
  EXPECT_EQ(ids(config->jobs[2].ranks), (std::vector<uint32_t>{2, 1}));
  EXPECT_EQ(config->jobs[2].nic, 1U);
}

TEST(ConfigChild, NamesWhatIsWrong) {
  const struct {
    std::string child;
    const char* words;
  } cases[] = {
      {child(""), "job.members"},
      {child("members = \"halves\""), "\"local_rank\""},
      {child("members = [2, 9]"), "expected ranks, 0 to 7"},
      {child("members = [2, 2]"), "each rank is in one group once"},
      {child("members = \"node\""), "none of these communicators has real ranks and emulated ones"},
      {child("members = [0, 3]"), "it has GPU 0 of node a and GPU 1 of node gpu"},
      {child("members = [2, 3, 4]"), "it has GPUs 0 and 1 of node gpu and GPU 0 of node w0"},
      {child("members = [0, 2, 1, 3]"), "rank 1 does not follow the others of its node"},
      {child("members = [3, 2, 5, 4]"), "rank 2 does not follow the others of its node"},
      {child("members = \"all\"\nranks = [\"a\", \"gpu\"]"),
       "a child communicator has its parent's"},
      {child("members = \"all\"\nnccl = \"2.20\""), "a child communicator has its parent's"},
      {child("members = \"all\"\njoin = { file = \"x\" }"),
       "a child communicator has its parent's"},
      {child("members = \"all\"\nchannels = 3"), "as many as its parent at most"},
      {child("members = \"all\"\noperations = \"fed\""), "operations = \"fed\" of that one, too"},
      {child("members = \"all\"", "train"), "two jobs have this name"},
      {"[[job]]\nname = \"x\"\nchild_of = \"trian\"\nmembers = \"all\"\ncollective = "
       "\"all_reduce\"\nsizes = [\"8KiB\"]\n",
       "\"train\""},
      {"[[job]]\nname = \"x\"\nmembers = \"all\"\nranks = [\"a\", \"w*\"]\ncollective = "
       "\"all_reduce\"\nsizes = [\"8KiB\"]\n",
       "members"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.child);
    const auto result = load_config_text(with_child(c.child), "child.toml");
    ASSERT_FALSE(result);
    const std::string errors = describe(result.error());
    EXPECT_NE(errors.find(c.words), std::string::npos) << errors;
    EXPECT_NE(errors.find("child.toml:"), std::string::npos) << errors;
  }
}

TEST(ConfigChild, NeedsAJobThatEmulatedRanksJoin) {
  std::string text = with_child(child("members = \"all\""));
  const std::string join = "join = { file = \"uid\" }\n";
  text.replace(text.find(join), join.size(), "");
  const auto result = load_config_text(text, "f");
  ASSERT_FALSE(result);
  EXPECT_NE(describe(result.error()).find("that job has no key join"), std::string::npos)
      << describe(result.error());
}

}  // namespace
}  // namespace understudy
