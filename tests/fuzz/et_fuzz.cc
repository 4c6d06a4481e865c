// libFuzzer target: any bytes are an execution trace. What is read of it is carried out by two ranks
// with both rules, or refused with words.
#include <memory>
#include <string>

#include "collective_model/traces/replay.h"
#include "ctrl/traces/et_file.h"
#include "ctrl/traces/trace_stats.h"
#include "tests/fuzz/input.h"

namespace understudy {
namespace {

ReplaySettings settings(TraceRules rules, TraceCongestion congestion, uint32_t ranks) {
  ReplaySettings made;
  made.rules = rules;
  made.network = *TraceNetwork::make({{TraceDimension::Kind::kRing, ranks, 50, 500}}, congestion);
  made.memory = {TraceMemory::Kind::kPool, 1000, 100};
  made.system.splits = 2;
  made.system.memory_gb_s = 1600;
  made.system.peak_tflops = 300;
  made.system.roofline = rules == TraceRules::kFeeder3;
  for (const TraceCollective collective :
       {TraceCollective::kAllReduce, TraceCollective::kAllGather, TraceCollective::kAllToAll}) {
    made.system.algorithms[collective] = {"ring"};
  }
  return made;
}

}  // namespace
}  // namespace understudy

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace understudy;
  auto graph = read_et({data, size}, "fuzz.et");
  if (!graph) {
    must(graph.error().text.starts_with("fuzz.et: "));
    return 0;
  }
  // A node takes two bytes at least: its length and its kind.
  must(graph->nodes().size() <= size / 2);
  TraceJob job;
  job.groups = {{1, {0, 1}}, {2, {0, 1, 2}}};
  job.ranks.assign(3, std::make_shared<const TraceGraph>(*std::move(graph)));
  must(!stats_json(job).empty());
  for (const auto rules : {TraceRules::kFeeder1, TraceRules::kFeeder3}) {
    for (const auto congestion : {TraceCongestion::kAware, TraceCongestion::kUnaware}) {
      const auto ranks = replay(job, settings(rules, congestion, 3));
      must(ranks ? ranks->size() == 3 : !ranks.error().text.empty());
    }
  }
  return 0;
}
