// libFuzzer target: any bytes are a GOAL schedule, text or binary. What is read of it comes back from both
// forms, becomes traces and a schedule again, or is refused with words.
#include <string>

#include "collective_model/traces/replay.h"
#include "ctrl/traces/goal/goal.h"
#include "tests/fuzz/input.h"

namespace understudy {
namespace {

ReplaySettings settings(uint32_t ranks) {
  ReplaySettings made;
  made.network = *TraceNetwork::make({{TraceDimension::Kind::kFullyConnected, ranks, 50, 500}},
                                     TraceCongestion::kUnaware);
  return made;
}

}  // namespace
}  // namespace understudy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace understudy;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  (void)looks_like_goal(bytes);
  const auto schedule = read_goal(bytes, "fuzz.goal");
  if (!schedule) {
    must(schedule.error().text.starts_with("fuzz.goal:"));
    return 0;
  }
  const std::string binary = goal_binary(*schedule);
  const auto of_binary = read_goal(binary, "again.bin");
  must(of_binary && goal_binary(*of_binary) == binary);
  const auto of_text = read_goal(goal_text(*schedule), "again.goal");
  must(of_text && goal_binary(*of_text) == binary);
  const auto job = goal_traces(*schedule);
  if (!job) {
    must(!job.error().text.empty());
    return 0;
  }
  constexpr size_t kMostRanks = 64;
  if (job->ranks.size() > kMostRanks) return 0;
  const auto ranks = replay(*job, settings(static_cast<uint32_t>(job->ranks.size())));
  must(ranks || !ranks.error().text.empty());
  const auto made = goal_of(*job);
  must(made || !made.error().text.empty());
  return 0;
}
