#include "ctrl/session/switched_run.h"

#include <algorithm>

#include "ctrl/config/load.h"
#include "ctrl/session/flow_run.h"
#include "ctrl/session/link_changes.h"
#include "ctrl/session/packet_run.h"
#include "ctrl/session/traffic_reports.h"

namespace understudy {
namespace {

/// Empty if a network with switches can stand behind this configuration's ports.
std::string refusal(const Config& config) {
  const auto error = [&](unsigned line, const char* key, const char* found, std::string allowed) {
    return ConfigError{config.path, line, key, found, std::move(allowed)}.text();
  };
  const std::string what = config.topology          ? "[topology]"
                           : config.queues.given    ? "[queues]"
                           : config.traffic.empty() ? "job.inner = \"packets\""
                                                    : "[[traffic]]";
  if (!config.fabric.pacing) return error(0, "fabric.pacing", "false", "no meaning with " + what);
  if (config.fabric.control_class == ControlClass::kSeparate) {
    return error(0, "fabric.control_class", "\"separate\"",
                 "no meaning with " + what + ": classes are those of [queues]");
  }
  for (const NodeConfig& node : config.nodes) {
    for (const NicConfig& nic : node.nics) {
      if (!nic.link_rate.is_unlimited()) continue;
      return error(node.line, "node.link.rate", "\"unlimited\"",
                   "with " + what + " every link has a rate");
    }
  }
  return "";
}

}  // namespace

bool is_switched(const Config& config) {
  return config.topology.has_value() || config.queues.given || !config.traffic.empty() ||
         std::ranges::any_of(config.jobs,
                             [](const JobConfig& job) { return job.inner == InnerMode::kPackets; });
}

std::string why_not_switched(const Config& config) {
  const bool real = !config.jobs.empty() || !config.services.empty() || !config.clients.empty();
  if (!real || !is_switched(config)) return "";
  return refusal(config);
}

std::string why_not_switched_live(const Config& config) {
  if (!is_switched(config) || config.ports.size() < 2) return "";
  return ConfigError{config.path, config.ports[1].line, "port", "a second one",
                     "run's ports have a packet loop each, which share no network: [topology], "
                     "[queues], [[traffic]] and job.inner = \"packets\" go with one there; "
                     "simulate takes several"}
      .text();
}

bool carries_inner(const Config& config, const JobConfig& job, bool virtual_time) {
  if (!is_switched(config) || config.fabric.fidelity != FabricFidelity::kPacket) return false;
  if (job.operations != OperationsMode::kTold) return false;  // no plan is known in advance
  if (job.merged_nics > 1) return false;                      // they would take one NIC of each
  return job.inner.value_or(virtual_time ? InnerMode::kPackets : InnerMode::kTimes) ==
         InnerMode::kPackets;
}

Config with_inner_packets(const Config& config) {
  Config changed = config;
  if (is_switched(config) || config.fabric.fidelity != FabricFidelity::kPacket) return changed;
  for (JobConfig& job : changed.jobs) {
    const bool even = job.algorithm == Algorithm::kRing && !is_p2p(job.collective);
    const bool known = job.operations == OperationsMode::kTold && job.merged_nics == 1;
    if (!even && !job.inner && known) {
      job.inner = InnerMode::kPackets;
    }
  }
  return refusal(changed).empty() ? changed : config;
}

std::string why_not_carried(const Config& config) {
  for (const JobConfig& job : config.jobs) {
    if (job.inner != InnerMode::kPackets || carries_inner(config, job, true)) continue;
    return ConfigError{config.path, job.line, "job.inner", "\"packets\"",
                       "needs fabric.fidelity = \"packet\" and operations = \"told\""}
        .text();
  }
  return "";
}

Result<std::unique_ptr<SwitchedRun>> SwitchedRun::create(const Config& config) {
  if (const std::string why = refusal(config); !why.empty()) return fail(why);
  auto topology = build_topology(config);
  if (!topology) return fail(describe(topology.error()));
  std::unique_ptr<SwitchedRun> run(new SwitchedRun(config, std::move(*topology)));
  if (config.traffic.empty()) {
    run->flows_.first = {0};
    return run;
  }
  if (auto added = run->add_traffic(); !added) return fail(added.error().text);
  return run;
}

Result<void> SwitchedRun::add_traffic() {
  auto traffic = build_traffic(config_, topology_);
  if (!traffic) return fail(describe(traffic.error()));
  flows_ = std::move(*traffic);
  if (config_.fabric.fidelity == FabricFidelity::kPacket) {
    auto routed = route();
    named_ = flows_.flows;
    return routed;
  }
  named_ = flows_.flows;
  auto senders = flow_senders(config_, topology_, flows_.flows);
  if (!senders) return fail(senders.error().text);
  senders_ = std::move(*senders);
  rates_ = std::make_unique<FlowModel>(topology_.graph, flows_.flows, senders_,
                                       config_.queues.flows, config_.queues.network.cut_through);
  load_ = std::make_unique<FlowLoad>(*rates_);
  return {};
}

Result<void> SwitchedRun::route() {
  if (auto routed = route_flows(topology_, config_.seed, flows_.flows); !routed) {
    return fail(config_.path + ": " + routed.error().text);
  }
  return {};
}

Result<void> SwitchedRun::carry(const JobConfig& job, const CollectiveSetup& setup) {
  if (setup.inner == nullptr || setup.inner->connections() == 0) return {};
  uint32_t connections = 0;
  for (const FlowSpec& flow : flows_.flows) {
    if (flow.connection != kNoConnection) connections = std::max(connections, flow.connection + 1);
  }
  const auto first = static_cast<uint32_t>(flows_.flows.size());
  setup.inner->add_flows(flows_.flows, connections);
  carried_.push_back({job.name, &setup, first, static_cast<uint32_t>(flows_.flows.size())});
  return route();
}

std::vector<std::vector<FlowSpec>> SwitchedRun::inner_loads() const {
  std::vector<std::vector<FlowSpec>> loads;
  for (const auto& [job, setup, first, end] : carried_) {
    uint64_t most = 0;
    std::vector<FlowSpec>& load = loads.emplace_back();
    for (const auto& shape : setup->shapes) {
      if (shape->bytes < most) continue;
      most = shape->bytes;
      load.clear();
      for (uint32_t i = 0; i < shape->inner_uses.size(); ++i) {
        const CollectiveShape::InnerUse& use = shape->inner_uses[i];
        FlowSpec flow = flows_.flows[setup->inner->first_flow(i)];
        flow.bytes = 0;
        const RankSchedule& sender = *shape->ranks[setup->job.inner[i].from];
        for (uint64_t k = 0; k < use.messages; ++k) flow.bytes += sender.message(use.from, k).wire;
        if (flow.bytes > 0) load.push_back(std::move(flow));
      }
    }
  }
  return loads;
}

void SwitchedRun::make_packets() {
  if (packets_ != nullptr || rates_ != nullptr || flows_.flows.empty()) return;
  packets_ = std::make_unique<FlowTraffic>(topology_.graph, flows_.flows, config_.queues.flows,
                                           flow_controls(config_));
  for (const Carried& carried : carried_) carried.setup->inner->attach(*packets_, true);
}

void SwitchedRun::enter(ShardConfig& shard) {
  make_packets();
  auto network = std::make_shared<SwitchedNetwork>();
  network->graph = topology_.graph;
  network->settings = network_settings(config_, flows_.flows);
  network->choice = topology_.choice;
  network->static_routes = topology_.static_routes;
  network->seed = config_.seed;
  network->packets = shard.packets;
  for (const NodeNic& nic : shard.nodes.nics()) {
    network->nics.push_back(topology_.nics[nic.id][nic.nic]);
  }
  for (NodeId node = 0; node < config_.nodes.size(); ++node) {
    network->cables.push_back(cables_of(topology_, node));
  }
  shard.network = std::move(network);
  shard.background = packets_.get();
  if (load_ != nullptr) shard.background = load_.get();
}

InnerMessagesReport SwitchedRun::inner_report(const Carried& carried) const {
  const InnerCounters& counters = carried.setup->inner->counters();
  uint64_t packets = 0, marked = 0, lost = 0, repeated = 0;
  for (uint32_t i = carried.first; i < carried.end; ++i) {
    const FlowResult& flow = packets_->results()[i];
    packets += flow.packets;
    marked += flow.marked;
    lost += flow.lost;
    repeated += flow.repeated;
  }
  return {carried.job,
          {{"connections", carried.setup->inner->connections()},
           {"messages", counters.messages},
           {"received", counters.received},
           {"bytes", counters.bytes},
           {"packets", packets},
           {"marked", marked},
           {"lost", lost},
           {"repeated", repeated}}};
}

TrafficReport SwitchedRun::report(const ShardSnapshot& snapshot, Time end) const {
  TrafficReport report;
  report.fidelity = rates_ == nullptr ? "packet" : "flow";
  std::vector<NetworkLinkCounters> links = snapshot.network;
  if (rates_ != nullptr) {
    const std::vector<uint64_t> bytes = rates_->link_bytes();
    for (LinkId link = 0; link < links.size(); ++link) links[link].wire_bytes += bytes[link];
    report_flows(report, config_, topology_, flows_, rates_->times());
  }
  if (packets_ != nullptr) {
    report_packets(report, config_, topology_, flows_, packets_->results());
    for (const Carried& carried : carried_) report.inner_messages.push_back(inner_report(carried));
  }
  report.links = link_reports(topology_.graph, links, end - Time::zero());
  uint64_t packets = 0;
  for (const NetworkLinkCounters& c : snapshot.network) packets += c.packets;
  report.work = {{"packets_on_links", packets}};
  return report;
}

}  // namespace understudy
