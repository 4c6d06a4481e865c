#include "ctrl/traces/pytorch/host_stats.h"

#include <cinttypes>
#include <nlohmann/json.hpp>

#include "ctrl/traces/pytorch/host_communications.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson amount_json(const HostStats::Amount& amount) {
  return {{"count", amount.count}, {"bytes", amount.bytes}};
}

std::string ranks_text(const HostGroup& group) {
  if (group.ranks.empty()) {
    return "all ranks" + (group.size ? " (" + std::to_string(*group.size) + ")" : "");
  }
  std::string text = "ranks";
  for (const uint32_t rank : group.ranks) text += " " + std::to_string(rank);
  return text;
}

}  // namespace

HostStats stats_of(const HostTrace& trace) {
  HostStats stats;
  stats.nodes = trace.nodes.size();
  for (uint32_t i = 0; i < trace.nodes.size(); ++i) {
    const HostNode& node = trace.nodes[i];
    if (trace.parents[i] != i) ++stats.calls;
    ++stats.kinds[static_cast<size_t>(node.kind)];
    ++stats.names[node.name];
    stats.input_tensors += node.input_tensors;
    stats.output_tensors += node.output_tensors;
  }
  for (const HostCommunication& one : communications_of(trace)) {
    const uint64_t bytes = one.what.bytes.value_or(0);
    HostStats::Amount& amount = one.what.kind == TraceNodeKind::kSend ? stats.sends
                                : one.what.kind == TraceNodeKind::kReceive
                                    ? stats.receives
                                    : stats.collectives[static_cast<size_t>(*one.what.collective)];
    ++amount.count;
    amount.bytes += bytes;
    if (one.is_bucket && one.what.collective == TraceCollective::kAllReduce) {
      stats.buckets.push_back(bytes);
    }
  }
  return stats;
}

std::string stats_text(const HostTrace& trace) {
  const HostStats stats = stats_of(trace);
  std::string text = format_text("host trace of PyTorch, schema %s, process %" PRIu64 "\n%" PRIu64
                                 " nodes, %" PRIu64 " calls, %" PRIu64 " tensors in, %" PRIu64
                                 " tensors out; no times\n",
                                 trace.schema.c_str(), trace.process, stats.nodes, stats.calls,
                                 stats.input_tensors, stats.output_tensors);
  for (size_t i = 0; i < stats.kinds.size(); ++i) {
    if (stats.kinds[i] == 0) continue;
    text += format_text("  %-24s %10" PRIu64 "\n", name_of(static_cast<HostNodeKind>(i)),
                        stats.kinds[i]);
  }
  text += format_text("  %-24s %10s %20s\n", "communication, once each", "count", "bytes");
  const auto line = [&text](const char* name, const HostStats::Amount& amount) {
    if (amount.count == 0) return;
    text += format_text("  %-24s %10" PRIu64 " %20" PRIu64 "\n", name, amount.count, amount.bytes);
  };
  for (uint8_t i = 0; i < kTraceCollectives; ++i) {
    line(name_of(static_cast<TraceCollective>(i)), stats.collectives[i]);
  }
  line("send", stats.sends);
  line("receive", stats.receives);
  if (!stats.buckets.empty()) {
    text += "buckets of gradients, bytes in order:";
    for (const uint64_t bytes : stats.buckets) text += " " + std::to_string(bytes);
    text += "\n";
  }
  for (const HostGroup& group : trace.groups) {
    text += "process group " + group.name + ": " + ranks_text(group) + "\n";
  }
  return text;
}

std::string stats_json(const HostTrace& trace) {
  const HostStats stats = stats_of(trace);
  OrderedJson json = {{"schema", "understudy-host-trace-stats/1"},
                      {"trace_schema", trace.schema},
                      {"process", trace.process},
                      {"nodes", stats.nodes},
                      {"calls", stats.calls},
                      {"kinds", OrderedJson::object()},
                      {"tensors", {{"in", stats.input_tensors}, {"out", stats.output_tensors}}},
                      {"collectives", OrderedJson::object()},
                      {"sends", amount_json(stats.sends)},
                      {"receives", amount_json(stats.receives)},
                      {"buckets", stats.buckets},
                      {"groups", OrderedJson::array()},
                      {"names", stats.names}};
  for (size_t i = 0; i < stats.kinds.size(); ++i) {
    json["kinds"][name_of(static_cast<HostNodeKind>(i))] = stats.kinds[i];
  }
  for (uint8_t i = 0; i < kTraceCollectives; ++i) {
    if (stats.collectives[i].count == 0) continue;
    json["collectives"][name_of(static_cast<TraceCollective>(i))] =
        amount_json(stats.collectives[i]);
  }
  for (const HostGroup& group : trace.groups) {
    OrderedJson one = {{"name", group.name}, {"ranks", group.ranks}};
    if (group.size) one["size"] = *group.size;
    json["groups"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace understudy
