// The summary of a topology as text and as JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "ctrl/report/text.h"
#include "ctrl/topology/topology_summary.h"
#include "dataplane/base/assert.h"

namespace understudy {
namespace {

using Json = nlohmann::ordered_json;

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string range_text(const std::string& least, const std::string& most) {
  return least == most ? least : least + " to " + most;
}

std::string ratio_text(double ratio) { return decimal_text(ratio, 3) + ":1"; }

const char* routing_name(RoutingMode mode) {
  switch (mode) {
    case RoutingMode::kEcmp:
      return "ecmp";
    case RoutingMode::kSpray:
      return "spray";
    case RoutingMode::kStatic:
      return "static";
    case RoutingMode::kDimensionOrder:
      return "dimension_order";
  }
  return "";
}

TopologyKind kind_of(const Config& config) {
  return config.topology ? config.topology->kind : TopologyKind::kSingleSwitch;
}

RoutingMode routing_of(const Config& config) {
  return config.topology ? config.topology->routing : RoutingMode::kEcmp;
}

std::string cable_name(const TopologySummary& summary, const CableGroup& group) {
  return summary.groups[group.a].name + " - " + summary.groups[group.b].name;
}

std::string longest_text(const LongestPath& longest) {
  if (longest.names.empty()) return "longest path: there is none\n";
  std::string text = "longest path  " + count_text(longest.links, "link") + ", " +
                     duration_text(longest.latency) + ": ";
  constexpr size_t kMostNames = 12;  // the middle of a long one is left out
  const size_t n = longest.names.size();
  for (size_t i = 0; i < n; ++i) {
    if (n > kMostNames && i == kMostNames / 2) {
      text += " -> ...";
      i = n - kMostNames / 2;
    }
    text += (i == 0 ? "" : " -> ") + longest.names[i];
  }
  text += longest.alternatives > 1
              ? " (one of " + std::to_string(longest.alternatives) +
                    (longest.alternatives == kMostPathsCounted ? " or more" : "") + " shortest)\n"
              : "\n";
  if (longest.seen == longest.places) return text;
  return text + "              (to " + std::to_string(longest.seen) + " of " +
         std::to_string(longest.places) + " places)\n";
}

}  // namespace

std::string rate_text(uint64_t bps) {
  struct Unit {
    uint64_t bps;
    const char* name;
  };
  static constexpr Unit kUnits[] = {{1'000'000'000'000, "Tbit/s"},
                                    {1'000'000'000, "Gbit/s"},
                                    {1'000'000, "Mbit/s"},
                                    {1'000, "kbit/s"}};
  for (const Unit& unit : kUnits) {
    if (bps < unit.bps) continue;
    return decimal_text(static_cast<double>(bps) / static_cast<double>(unit.bps), 3) + " " +
           unit.name;
  }
  return std::to_string(bps) + " bit/s";
}

std::string kind_name(TopologyKind kind) {
  const auto* known =
      std::ranges::find(kTopologyKinds, kind, &decltype(kTopologyKinds)::value_type::second);
  ASSERT_INVARIANT(known != kTopologyKinds.end());
  return std::string(known->first);
}

std::string summary_text(const Config& config, const TopologySummary& summary) {
  std::string text = config.path + ": " + kind_name(kind_of(config)) + ", routing " +
                     routing_name(routing_of(config)) + "\n";
  text += count_text(summary.nodes, "node") + ", " + count_text(summary.nics, "NIC") + ", " +
          count_text(summary.gpus, "GPU") + "\n";
  size_t width = 8;
  for (const CableGroup& group : summary.cables) {
    width = std::max(width, cable_name(summary, group).size());
  }
  for (const VertexGroup& group : summary.groups) {
    if (group.name == "NIC") continue;
    text += "  " + padded(group.name, width) + "  " + padded(std::to_string(group.count), 6) +
            "  tier " + std::to_string(group.tier);
    if (group.up_bps != 0) {
      text += "  oversubscription " + ratio_text(group.oversubscription()) + " (" +
              (group.uniform ? "" : "the highest: ") + rate_text(group.down_bps) + " down, " +
              rate_text(group.up_bps) + " up)";
    }
    text += "\n";
  }
  text += "cables, both directions alike unless ranges say otherwise\n";
  for (const CableGroup& group : summary.cables) {
    text += "  " + padded(cable_name(summary, group), width) + "  " +
            padded(std::to_string(group.cables), 6) + "  " +
            range_text(rate_text(group.slowest.bps()), rate_text(group.fastest.bps())) + ", " +
            range_text(duration_text(group.shortest), duration_text(group.longest)) + "\n";
  }
  const double share = summary.half_bps == 0 ? 0
                                             : 100 * static_cast<double>(summary.bisection_bps) /
                                                   static_cast<double>(summary.half_bps);
  text += "bisection bandwidth  " + rate_text(summary.bisection_bps) + ", " +
          decimal_text(share, 2) + " % of the NICs' (maximum flow, one way, from the first " +
          std::to_string(summary.nics / 2) + " NICs to the other " +
          std::to_string(summary.nics - summary.nics / 2) + ")\n";
  return text + longest_text(summary.longest);
}

std::string summary_json(const Config& config, const TopologySummary& summary) {
  Json out;
  out["configuration"] = {{"path", config.path}, {"hash", config.hash}};
  out["kind"] = kind_name(kind_of(config));
  out["routing"] = routing_name(routing_of(config));
  out["nodes"] = summary.nodes;
  out["nics"] = summary.nics;
  out["gpus"] = summary.gpus;
  out["vertices"] = Json::array();
  for (const VertexGroup& group : summary.groups) {
    Json one = {{"name", group.name}, {"tier", group.tier}, {"count", group.count}};
    if (group.up_bps != 0) {
      one["down_bps"] = group.down_bps;
      one["up_bps"] = group.up_bps;
      one["oversubscription"] = group.oversubscription();
      one["uniform"] = group.uniform;
    }
    out["vertices"].push_back(std::move(one));
  }
  out["cables"] = Json::array();
  for (const CableGroup& group : summary.cables) {
    out["cables"].push_back({{"a", summary.groups[group.a].name},
                             {"b", summary.groups[group.b].name},
                             {"count", group.cables},
                             {"least_bps", group.slowest.bps()},
                             {"most_bps", group.fastest.bps()},
                             {"least_latency_ps", group.shortest.ps()},
                             {"most_latency_ps", group.longest.ps()}});
  }
  out["bisection_bps"] = summary.bisection_bps;
  out["half_bps"] = summary.half_bps;
  const LongestPath& longest = summary.longest;
  out["longest_path"] = {{"links", longest.links},       {"latency_ps", longest.latency.ps()},
                         {"vertices", longest.names},    {"shortest_paths", longest.alternatives},
                         {"destinations", longest.seen}, {"places", longest.places}};
  return out.dump(2) + "\n";
}

}  // namespace understudy
