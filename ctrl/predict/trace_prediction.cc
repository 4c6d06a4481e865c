#include "ctrl/predict/trace_prediction.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "collective_model/predict/time_model.h"
#include "ctrl/compile/traces/trace_job.h"
#include "ctrl/compile/traces/trace_parts.h"
#include "ctrl/network/trace_reports.h"
#include "ctrl/predict/job_network.h"
#include "ctrl/predict/shared_rate.h"
#include "ctrl/report/json/trace_json.h"
#include "ctrl/report/validity_json.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// When operations of several kinds are on their way by one NIC.
class Contention {
 public:
  void add(const Config& config, const TraceMembers& members, uint32_t kind, Time from, Time to) {
    if (to <= from) return;
    std::set<std::pair<NodeId, uint32_t>> nics;
    for (const GpuPlace& place : members.places) {
      nics.emplace(place.node, nic_number(config, place));
    }
    for (const auto& nic : nics) {
      edges_[nic].push_back({from, kind, 1});
      edges_[nic].push_back({to, kind, -1});
    }
  }
  /// At the NIC where it is longest.
  Duration longest() {
    Duration most;
    for (auto& [nic, edges] : edges_) {
      std::ranges::sort(edges, {},
                        [](const Edge& edge) { return std::pair(edge.at, edge.change); });
      std::map<uint32_t, int> active;
      Duration both;
      Time last;
      for (const Edge& edge : edges) {
        if (active.size() > 1) both += edge.at - last;
        last = edge.at;
        if ((active[edge.kind] += edge.change) == 0) active.erase(edge.kind);
      }
      most = std::max(most, both);
    }
    return most;
  }

 private:
  struct Edge {
    Time at;
    uint32_t kind;
    int change;
  };
  std::map<std::pair<NodeId, uint32_t>, std::vector<Edge>> edges_;
};

class TracePredictor {
 public:
  TracePredictor(const Config& config, const Topology& topology)
      : config_(config), topology_(topology), routes_(topology.routes(config.seed)) {}

  Result<TracePrediction> run() {
    const auto plan = TRY(plan_traces(config_));
    const std::vector<TraceCommunicator>& all = plan->communicators().all();
    std::vector<TraceMembers> members;
    for (const TraceCommunicator& one : all) {
      auto found = trace_members(*plan, one);
      if (!found) return no(found.error().text);
      members.push_back(*std::move(found));
    }
    // Those with the same operations are taken to be at work together.
    std::map<Alike, std::vector<MessageWays::Way>> ways;
    for (size_t i = 0; i < all.size(); ++i) {
      if (members[i].crosses()) add_ways(all[i], members[i], ways[alike(all[i], members[i])]);
    }
    std::vector<uint32_t> kinds;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto kind = ways.find(alike(all[i], members[i]));
      kinds.push_back(static_cast<uint32_t>(std::distance(ways.begin(), kind)));
    }
    std::map<Alike, SharedRate> rates;
    for (const auto& [key, list] : ways) {
      rates[key] = shared_rate(config_, topology_, routes_, list);
    }
    std::map<Alike, std::vector<ClosedTime>> known;
    std::vector<std::vector<ClosedTime>> times;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!members[i].crosses()) {
        times.push_back(inside(all[i]));
        continue;
      }
      const Alike key = alike(all[i], members[i]);
      const auto [it, fresh] = known.try_emplace(key);
      if (fresh) it->second = TRY(over_network(all[i], members[i], rates.at(key)));
      times.push_back(it->second);
    }
    size_t next = 0;
    const auto made = close_traces(plan, [&](const TraceCommunicator&) { return times[next++]; });
    Contention contention;
    made->run->tell([&](uint32_t communicator, Time from, Time to) {
      if (members[communicator].crosses()) {
        contention.add(config_, members[communicator], kinds[communicator], from, to);
      }
    });
    made->run->begin(Time::zero());
    made->run->advance_all();
    if (!made->run->finished()) return no(made->run->why_unfinished());
    TracePrediction out{trace_report(config_, *made), 0};
    const Duration all_time = out.report.finish() - Time::zero();
    if (all_time > Duration()) out.contended = contention.longest().seconds() / all_time.seconds();
    return out;
  }

 private:
  using Alike =
      std::tuple<size_t, uint32_t,
                 std::vector<std::tuple<std::optional<TraceCollective>, uint64_t, uint64_t>>>;
  static Alike alike(const TraceCommunicator& one, const TraceMembers& members) {
    Alike out{one.ranks.size(), members.together, {}};
    for (const TraceShape& shape : one.shapes) {
      std::get<2>(out).emplace_back(shape.collective, shape.bytes, shape.count);
    }
    std::ranges::sort(std::get<2>(out));
    return out;
  }

  tl::unexpected<Error> no(const std::string& text) const {
    return fail(config_.path + ":" + std::to_string(config_.workload->line) +
                ": workload: " + text);
  }

  /// Connections of rings; of operations of all pairs the closed form counts what NICs carry.
  void add_ways(const TraceCommunicator& one, const TraceMembers& members,
                std::vector<MessageWays::Way>& out) const {
    const auto ranks = static_cast<uint32_t>(one.ranks.size());
    if (one.messages) {
      out.push_back(trace_way(config_, topology_, members, 0, 1));
      return;
    }
    for (uint32_t channel = 0; channel < members.together; ++channel) {
      for (uint32_t first = 0; first < ranks; first += members.together) {
        const uint32_t leaves = first + (channel + members.together - 1) % members.together;
        const uint32_t enters = (first + members.together) % ranks + channel;
        out.push_back(trace_way(config_, topology_, members, leaves, enters));
      }
    }
  }

  std::vector<ClosedTime> inside(const TraceCommunicator& one) const {
    std::vector<ClosedTime> out;
    for (const TraceShape& shape : one.shapes) {
      out.push_back({trace_inside_time(config_, one, shape), Duration()});
    }
    return out;
  }

  Result<std::vector<ClosedTime>> over_network(const TraceCommunicator& one,
                                               const TraceMembers& members,
                                               const SharedRate& rate) const {
    std::vector<ClosedTime> out;
    for (const TraceShape& shape : one.shapes) {
      if (one.messages) {
        const double wire =
            (config_.fabric.mtu + PacketLimits::kHeaders) / static_cast<double>(config_.fabric.mtu);
        const double bytes = static_cast<double>(shape.bytes) * wire;
        const double us = rate.slowest > 0 ? bytes / rate.slowest : 0;
        out.push_back({Duration::ps(std::llround(us * 1e6)), rate.latency});
        continue;
      }
      const JobConfig job = trace_operation_job(config_, members, one, shape);
      OperationShape made;
      made.collective = job.collective;
      made.communicator = {static_cast<uint32_t>(one.ranks.size()),
                           static_cast<uint32_t>(job.ranks.size())};
      made.bytes = job.sizes.front();
      made.element = element_bytes(job.type);
      made.channels = job.channels;
      made.version = job.nccl;
      NetworkCost cost = job_network(config_, job, Algorithm::kRing, job.channels, &topology_).cost;
      const double left = rate.slowest * job.channels;
      if (left > 0 && !is_p2p(job.collective)) {
        cost.rate = cost.rate > 0 ? std::min(cost.rate, left) : left;
      }
      const double us = operation_time(made, Calibration(), cost);
      out.push_back({Duration::ps(std::llround(us * 1e6)), Duration()});
    }
    return out;
  }

  const Config& config_;
  const Topology& topology_;
  Routes routes_;
};

}  // namespace

Result<TracePrediction> predict_traces(const Config& config, const Topology& topology) {
  return TracePredictor(config, topology).run();
}

std::vector<ValidityLine> trace_validity(const Config& config, const Topology& topology,
                                         const TracePrediction& prediction) {
  return predicted_trace_validity(config, topology.choice == RouteChoice::kEcmp,
                                  prediction.contended);
}

std::string trace_prediction_json(const Config& config, const TraceReport& report,
                                  const std::vector<ValidityLine>& validity) {
  report_parts::Json out;
  out["schema"] = "understudy-trace-prediction/1";
  out["configuration"] = {{"path", config.path}, {"hash", config.hash}};
  out["traces"] = trace_report_json(report);
  out["validity"] = validity_json(validity);
  return out.dump(2) + "\n";
}

}  // namespace understudy
