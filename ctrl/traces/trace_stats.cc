#include "ctrl/traces/trace_stats.h"

#include <cinttypes>
#include <map>
#include <nlohmann/json.hpp>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

using OrderedJson = nlohmann::ordered_json;

void add(TraceStats& to, const TraceStats& more) {
  to.nodes += more.nodes;
  to.data_edges += more.data_edges;
  to.control_edges += more.control_edges;
  to.dangling_data += more.dangling_data;
  to.dangling_control += more.dangling_control;
  to.on_cpu += more.on_cpu;
  to.compute_us += more.compute_us;
  to.cpu_us += more.cpu_us;
  for (size_t i = 0; i < to.kinds.size(); ++i) to.kinds[i] += more.kinds[i];
  const auto add_amount = [](TraceStats::Amount& sum, const TraceStats::Amount& amount) {
    sum.count += amount.count;
    sum.bytes += amount.bytes;
  };
  for (size_t i = 0; i < to.collectives.size(); ++i) {
    add_amount(to.collectives[i], more.collectives[i]);
  }
  add_amount(to.sends, more.sends);
}

/// By graph, which ranks share.
std::map<const TraceGraph*, TraceStats> stats_by_graph(const TraceJob& job) {
  std::map<const TraceGraph*, TraceStats> all;
  for (const auto& graph : job.ranks) {
    if (!all.contains(graph.get())) all.emplace(graph.get(), stats_of(*graph));
  }
  return all;
}

TraceStats sum_of(const TraceJob& job, const std::map<const TraceGraph*, TraceStats>& all) {
  TraceStats sum;
  for (const auto& graph : job.ranks) add(sum, all.at(graph.get()));
  return sum;
}

OrderedJson amount_json(const TraceStats::Amount& amount) {
  return {{"count", amount.count}, {"bytes", amount.bytes}};
}

OrderedJson json_of(const TraceStats& stats) {
  OrderedJson json = {{"nodes", stats.nodes},
                      {"data_edges", stats.data_edges},
                      {"control_edges", stats.control_edges},
                      {"dangling_data_edges", stats.dangling_data},
                      {"dangling_control_edges", stats.dangling_control},
                      {"on_cpu", stats.on_cpu},
                      {"compute_us", stats.compute_us},
                      {"cpu_us", stats.cpu_us},
                      {"kinds", OrderedJson::object()},
                      {"collectives", OrderedJson::object()},
                      {"sends", amount_json(stats.sends)}};
  for (uint8_t kind = 1; kind < kTraceNodeKinds; ++kind) {
    json["kinds"][name_of(static_cast<TraceNodeKind>(kind))] = stats.kinds[kind];
  }
  for (uint8_t i = 0; i < kTraceCollectives; ++i) {
    if (stats.collectives[i].count == 0) continue;
    json["collectives"][name_of(static_cast<TraceCollective>(i))] =
        amount_json(stats.collectives[i]);
  }
  return json;
}

std::string edges_text(uint64_t edges, uint64_t dangling, const char* what) {
  std::string text = format_text("%" PRIu64 " %s dependencies", edges, what);
  if (dangling > 0) text += format_text(" (%" PRIu64 " of nodes that are not there)", dangling);
  return text;
}

}  // namespace

TraceStats stats_of(const TraceGraph& graph) {
  TraceStats stats;
  stats.nodes = graph.nodes().size();
  stats.data_edges = graph.data().parents.size();
  stats.control_edges = graph.control().parents.size();
  for (const DanglingParent& dangling : graph.dangling()) {
    ++(dangling.control ? stats.control_edges : stats.data_edges);
    ++(dangling.control ? stats.dangling_control : stats.dangling_data);
  }
  for (const TraceNode& node : graph.nodes()) {
    ++stats.kinds[static_cast<size_t>(node.kind)];
    if (node.on_cpu) ++stats.on_cpu;
    if (node.kind == TraceNodeKind::kCompute) {
      (node.on_cpu ? stats.cpu_us : stats.compute_us) += node.duration_us;
    }
    if (node.on_cpu) continue;
    const auto count = [&node](TraceStats::Amount& amount) {
      ++amount.count;
      amount.bytes += node.bytes.value_or(0);
    };
    if (node.kind == TraceNodeKind::kSend) count(stats.sends);
    if (node.kind == TraceNodeKind::kCollective && node.collective) {
      count(stats.collectives[static_cast<size_t>(*node.collective)]);
    }
  }
  return stats;
}

std::string stats_text(const TraceJob& job) {
  const auto all = stats_by_graph(job);
  const TraceStats sum = sum_of(job, all);
  std::string text = format_text("%zu rank%s", job.ranks.size(), job.ranks.size() == 1 ? "" : "s");
  if (job.ranks.size() > 1) text += format_text(", %zu different", all.size());
  text +=
      format_text("; %" PRIu64 " nodes, %" PRIu64 " of them on the CPU\n", sum.nodes, sum.on_cpu);
  text += edges_text(sum.data_edges, sum.dangling_data, "data") + ", " +
          edges_text(sum.control_edges, sum.dangling_control, "control") + "\n";
  text += format_text("recorded computing: %" PRIu64 " us, and %" PRIu64 " us on the CPU\n",
                      sum.compute_us, sum.cpu_us);
  for (uint8_t kind = 1; kind < kTraceNodeKinds; ++kind) {
    if (sum.kinds[kind] == 0) continue;
    text += format_text("  %-22s %10" PRIu64 "\n", name_of(static_cast<TraceNodeKind>(kind)),
                        sum.kinds[kind]);
  }
  text += format_text("  %-22s %10s %20s\n", "outside the CPU", "count", "bytes");
  for (uint8_t i = 0; i < kTraceCollectives; ++i) {
    const TraceStats::Amount& amount = sum.collectives[i];
    if (amount.count == 0) continue;
    text += format_text("  %-22s %10" PRIu64 " %20" PRIu64 "\n",
                        name_of(static_cast<TraceCollective>(i)), amount.count, amount.bytes);
  }
  if (sum.sends.count > 0) {
    text += format_text("  %-22s %10" PRIu64 " %20" PRIu64 "\n", "send", sum.sends.count,
                        sum.sends.bytes);
  }
  return text;
}

std::string stats_json(const TraceJob& job) {
  const auto all = stats_by_graph(job);
  OrderedJson json = {{"schema", "understudy-trace-stats/1"},
                      {"all", json_of(sum_of(job, all))},
                      {"ranks", OrderedJson::array()}};
  for (const auto& graph : job.ranks) json["ranks"].push_back(json_of(all.at(graph.get())));
  return json.dump(2) + "\n";
}

}  // namespace understudy
