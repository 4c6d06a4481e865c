// One real rank beside emulated ones takes as long as where all ranks are carried out packet by
// packet, by default: whatever the algorithm, and however many connections share a NIC.
#include "tests/ctrl/nccl_virtual/rig.h"

namespace understudy::nccl_rank {
namespace {

/// What rank 0 takes for each operation where all ranks are emulated and go packet by packet.
std::vector<Duration> all_ranks(const Case& c) {
  std::string text = text_of(c, 28, "file = \"unused\"");
  const auto cut = [&](const std::string& words) {
    for (size_t at; (at = text.find(words)) != std::string::npos;) text.erase(at, words.size());
  };
  cut("real = true\n");
  cut("[[port]]\nreal = \"gpu\"\ndevice = \"virtual\"\n");
  cut("join = { file = \"unused\" }\n");
  SimulateOptions options;
  options.timeline = true;
  const auto report = compile_and_simulate(config_of(text), options);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  std::vector<Duration> took;
  if (!report) return took;
  for (const TimelineTrack& track : report->timeline) {
    if (track.group.find("rank 0 ") == std::string::npos || track.name != "operations") continue;
    for (const auto& slice : track.slices) took.push_back(slice.length);
  }
  return took;
}

constexpr const char* kGroup = "group = true\n";

struct Question {
  std::string name;
  Case c;
};

Case question(const char* collective, const char* algorithm, unsigned ranks, unsigned channels,
              std::string more = {}) {
  Case c;
  c.collective = collective;
  c.algorithm = algorithm;
  c.ranks = ranks;
  c.channels = channels;
  c.rate = "1Gbit/s";
  c.more = std::move(more);
  return c;
}

const Question kQuestions[] = {
    {"tree", question("all_reduce", "tree", 4, 2)},
    {"tree of one channel", question("all_reduce", "tree", 7, 1)},
    {"ring of two channels", question("all_reduce", "ring", 4, 2)},
    {"ring of four channels", question("all_reduce", "ring", 8, 4)},
    {"ring of one channel", question("all_reduce", "ring", 8, 1)},
    {"ll ring",
     [] {
       Case c = question("all_reduce", "ring", 4, 2);
       c.protocol = "ll";
       return c;
     }()},
    {"pat", question("all_gather", "pat", 8, 2)},
    {"all to all", question("all_to_all", "ring", 4, 2)},
    {"send, receive", question("send_recv", "ring", 4, 2)},
    {"group", question("all_reduce", "ring", 4, 2, kGroup)},
};

void PrintTo(const Question& q, std::ostream* out) { *out << q.name; }

class PlansOfJoinedJobs : public testing::TestWithParam<Question> {};

TEST_P(PlansOfJoinedJobs, TakeWhatAllRanksTake) {
  // One operation a run: all ranks enter the first one together.
  for (const char* sizes : {"\"64KiB\"", "\"1MiB\""}) {
    Case c = GetParam().c;
    c.sizes = sizes;
    if (c.more == kGroup) c.sizes += ", \"256KiB\"";
    const std::vector<Duration> all = all_ranks(c);
    ASSERT_EQ(all.size(), 1U);
    play(c, 28, {}, {}, [&](const VirtualJob& job, const JobReport& report) {
      ASSERT_EQ(report.collectives.size(), 1U);
      const double expected = all[0].microseconds(), seen = took(job, 0).all.microseconds();
      std::printf("%s, %s: %.1f us, all ranks %.1f us, %+.2f %%\n", GetParam().name.c_str(), sizes,
                  seen, expected, 100 * (seen / expected - 1));
      // Or two packets of 4 KiB for each other rank.
      EXPECT_NEAR(seen, expected, std::max(0.005 * expected, 2 * 33.5 * (c.ranks - 1)));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Questions, PlansOfJoinedJobs, testing::ValuesIn(kQuestions),
                         [](const auto& info) {
                           std::string name;
                           for (const char letter : info.param.name) {
                             name += std::isalnum(letter) ? letter : '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace understudy::nccl_rank
