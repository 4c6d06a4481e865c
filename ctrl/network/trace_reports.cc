#include "ctrl/network/trace_reports.h"

#include <algorithm>
#include <map>
#include <string>

namespace understudy {
namespace {

const char* name_of_rules(TraceRules rules) {
  if (rules == TraceRules::kStreams) return "streams";
  if (rules == TraceRules::kDataStreams) return "data-streams";
  return rules == TraceRules::kFeeder1 ? "feeder1" : "feeder3";
}

std::string track_of(const TraceNode& node) {
  if (node.on_cpu) return "CPU";
  switch (node.kind) {
    case TraceNodeKind::kMemoryLoad:
    case TraceNodeKind::kMemoryStore:
      return "memory";
    case TraceNodeKind::kCollective:
      return node.group.empty() || node.group == "0" ? "all ranks" : "group " + node.group;
    case TraceNodeKind::kSend:
      return "to rank " + std::to_string(node.destination.value_or(0));
    case TraceNodeKind::kReceive:
      return "from rank " + std::to_string(node.source.value_or(0));
    case TraceNodeKind::kMetadata:
    case TraceNodeKind::kCompute:
      break;
  }
  return "computes";
}

}  // namespace

TraceReport trace_report(const Config& config, const TraceOnNetwork& traces) {
  const TraceRun& run = *traces.run;
  TraceReport out;
  out.source = traces.packets != nullptr ? "packet"
               : traces.rates != nullptr ? "flow"
                                         : "closed form";
  out.rules = name_of_rules(traces.plan->settings.rules);
  out.nodes = traces.plan->nodes();
  out.communicators = traces.plan->communicators().all().size();
  out.connections = traces.connections;
  for (uint32_t rank = 0; rank < run.executor().ranks(); ++rank) {
    const GpuPlace place = traces.plan->place(rank);
    out.ranks.push_back({config.nodes[place.node].name, place.gpu, run.executor().finish(rank),
                         run.computed(rank)});
  }
  for (const auto& [collective, totals] : run.totals()) {
    out.operations.push_back({collective ? name_of(*collective) : "message", totals.count,
                              totals.bytes, totals.all, totals.longest, totals.waiting});
  }
  return out;
}

void add_trace_timeline(std::vector<TimelineTrack>& tracks, const Config& config,
                        const TraceOnNetwork& traces) {
  const TraceExecutor& executor = traces.run->executor();
  for (uint32_t rank = 0; rank < executor.ranks(); ++rank) {
    const std::vector<TraceNodeTimes>& times = executor.times(rank);
    std::map<std::string, std::vector<uint32_t>> by_track;
    for (uint32_t index = 0; index < times.size(); ++index) {
      if (times[index].skipped || times[index].end <= times[index].begin) continue;
      by_track[track_of(executor.node(rank, index))].push_back(index);
    }
    const GpuPlace place = traces.plan->place(rank);
    const std::string group = "rank " + std::to_string(rank) + " (" +
                              config.nodes[place.node].name + ", GPU " + std::to_string(place.gpu) +
                              ")";
    for (auto& [name, nodes] : by_track) {
      std::ranges::stable_sort(nodes, {}, [&](uint32_t index) { return times[index].begin; });
      TimelineTrack& track = tracks.emplace_back(TimelineTrack{group, name, {}});
      for (const uint32_t index : nodes) {
        const TraceNode& node = executor.node(rank, index);
        // One that begins while the one before goes on stands behind it.
        const Time before =
            track.slices.empty() ? Time() : track.slices.back().from + track.slices.back().length;
        append(track, std::max(times[index].begin, before), times[index].end,
               node.name.empty() ? name_of(node.kind) : node.name,
               {{"node", node.id}, {"bytes", node.bytes.value_or(node.tensor_bytes)}});
      }
    }
  }
}

}  // namespace understudy
