#include "ctrl/network/shared_network.h"

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/network/lone_packets.h"
#include "ctrl/network/lone_rates.h"
#include "ctrl/network/progress.h"
#include "ctrl/network/rank_reports.h"
#include "ctrl/network/trace_reports.h"
#include "ctrl/network/traffic_reports.h"
#include "ctrl/network/training_reports.h"
#include "ctrl/traffic/flow_routes.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"

namespace understudy {

Result<std::unique_ptr<SharedNetwork>> SharedNetwork::create(const Config& config,
                                                             const Topology& topology, bool alone,
                                                             Said progress) {
  std::unique_ptr<SharedNetwork> run(new SharedNetwork(config, topology, std::move(progress)));
  TRY(run->add_traffic());
  // Hashes count all flows that there are: here those of [[traffic]], alone also those of jobs.
  if (!alone) TRY(run->route());
  run->named_ = run->flows_.flows;
  return run;
}

Result<void> SharedNetwork::add_traffic() {
  auto traffic = build_traffic(config_, topology_);
  if (!traffic) return fail(describe(traffic.error()));
  flows_ = std::move(*traffic);
  connections_ = connection_count(flows_.flows);
  return {};
}

Result<void> SharedNetwork::route() {
  if (flows_.flows.empty()) return {};
  if (as_rates()) {
    senders_ = TRY(flow_senders(config_, topology_, flows_.flows));
    return {};
  }
  Progress said(progress_);
  const auto prepared = [&](size_t flows) {
    if (!said.due()) return;
    said.line(format_text("%zu of %zu flows prepared", flows, flows_.flows.size()),
              static_cast<double>(flows) / static_cast<double>(flows_.flows.size()));
  };
  if (auto routed = route_flows(topology_, config_.seed, flows_.flows, prepared); !routed) {
    return fail(config_.path + ": " + routed.error().text);
  }
  return {};
}

Result<void> SharedNetwork::carry(const JobConfig& job, InnerMessages* carrier) {
  if (carrier == nullptr || carrier->connections() == 0) return {};
  const auto first = static_cast<uint32_t>(flows_.flows.size());
  connections_ = carrier->add_flows(flows_.flows, connections_);
  carried_.push_back({job.name, carrier, first, static_cast<uint32_t>(flows_.flows.size())});
  return route();
}

Result<void> SharedNetwork::carry(const JobConfig& job, WorkloadExecutor& workload, uint32_t group,
                                  bool recorded) {
  RankJob made = TRY(build_rank_job(config_, job, topology_, flows_.flows, connections_));
  made.ranks->follow(workload, group);
  if (recorded) made.ranks->record();
  emulated_.push_back({&job, std::move(made)});
  return {};
}

Result<void> SharedNetwork::carry(const TrainingPlan& plan) {
  training_ = TRY(build_training_job(config_, plan, topology_, flows_.flows, connections_));
  return {};
}

Result<void> SharedNetwork::carry(std::shared_ptr<const TracePlan> plan) {
  traces_ = TRY(build_traces(config_, std::move(plan), topology_, flows_.flows, connections_));
  return {};
}

void SharedNetwork::make_carrier() {
  ASSERT_INVARIANT(packets_ == nullptr && rates_ == nullptr);
  if (as_rates()) {
    rates_ = std::make_unique<FlowModel>(topology_.graph, flows_.flows, senders_,
                                         config_.queues.flows, config_.queues.network.cut_through);
    if (const auto after = network_settings(config_).reconverge) {
      rates_->reroute_after(*after, topology_.routes(config_.seed));
    }
    return;
  }
  packets_ = std::make_unique<FlowTraffic>(topology_.graph, flows_.flows, config_.queues.flows,
                                           flow_controls(config_));
  for (const Carried& carried : carried_) carried.carrier->attach(*packets_, true);
  if (training_ != nullptr && training_->packets != nullptr) {
    training_->packets->attach_messages(*packets_);
  }
  if (traces_ != nullptr && traces_->packets != nullptr) {
    traces_->packets->attach_messages(*packets_);
  }
}

Result<void> SharedNetwork::stand_alone() {
  TRY(route());
  make_carrier();
  std::vector<FlowJob*> jobs;
  for (const EmulatedJob& job : emulated_) jobs.push_back(job.job.ranks.get());
  if (training_ != nullptr) {
    if (FlowJob* ranks = training_->ranks()) {
      jobs.push_back(ranks);
    } else {
      training_->workload->begin();
    }
  }
  if (traces_ != nullptr) {
    for (FlowJob* job : traces_->jobs()) jobs.push_back(job);
  }
  if (as_rates()) {
    alone_ = std::make_unique<LoneRates>(*rates_, std::move(jobs));
  } else {
    alone_ = std::make_unique<LonePackets>(topology_.graph, topology_.next_hops(config_.seed),
                                           network_settings(config_), flows_.flows, *packets_,
                                           std::move(jobs));
  }
  return {};
}

void SharedNetwork::enter(ShardConfig& shard) {
  if (!flows_.flows.empty()) make_carrier();
  shard.background = packets_.get();
  if (rates_ == nullptr) return;
  load_ = std::make_unique<FlowLoad>(*rates_);
  shard.background = load_.get();
}

InnerMessagesReport SharedNetwork::inner_report(const Carried& carried) const {
  const InnerCounters& counters = carried.carrier->counters();
  uint64_t packets = 0, marked = 0, lost = 0, repeated = 0;
  for (uint32_t i = carried.first; i < carried.end; ++i) {
    const FlowResult& flow = packets_->results()[i];
    packets += flow.packets;
    marked += flow.marked;
    lost += flow.lost;
    repeated += flow.repeated;
  }
  return {carried.job,
          {{"connections", carried.carrier->connections()},
           {"messages", counters.messages},
           {"received", counters.received},
           {"bytes", counters.bytes},
           {"packets", packets},
           {"marked", marked},
           {"lost", lost},
           {"repeated", repeated}}};
}

std::vector<NetworkLinkCounters> SharedNetwork::own_links(Time end) const {
  std::vector<NetworkLinkCounters> links;
  const Network* network = alone_ == nullptr ? nullptr : alone_->network();
  if (network == nullptr) return links;
  for (LinkId link = 0; link < topology_.graph.links().size(); ++link) {
    links.push_back(network->counters_at(link, end));
  }
  return links;
}

/// What the computation took.
NamedCounts SharedNetwork::work(const std::vector<NetworkLinkCounters>& links) const {
  if (alone_ != nullptr) return alone_->work();
  uint64_t packets = 0;
  for (const NetworkLinkCounters& c : links) packets += c.packets;
  return {{"packets_on_links", packets}};
}

TrafficReport SharedNetwork::report(std::vector<NetworkLinkCounters> links,
                                    const std::vector<StormCounters>& storms, Time end) const {
  TrafficReport report;
  report.fidelity = rates_ == nullptr ? "packet" : "flow";
  for (const EmulatedJob& emulated : emulated_) {
    report.jobs.push_back(rank_job_report(*emulated.config, emulated.job));
  }
  if (traces_ != nullptr) report.traces = trace_report(config_, *traces_);
  if (training_ != nullptr) report.training = training_report(config_, *training_);
  report.work = work(links);
  if (rates_ != nullptr) {
    const std::vector<uint64_t> bytes = rates_->link_bytes();
    for (LinkId link = 0; link < links.size(); ++link) links[link].wire_bytes += bytes[link];
    for (LinkId link = 0; link < bytes.size() && links.empty(); ++link) {
      if (bytes[link] == 0) continue;
      report.links.push_back(link_report(topology_.graph, link, bytes[link], end - Time::zero()));
    }
    report_flows(report, config_, topology_, flows_, rates_->times());
  }
  if (packets_ != nullptr) {
    report_packets(report, config_, topology_, flows_, packets_->results());
    for (const Carried& carried : carried_) report.inner_messages.push_back(inner_report(carried));
  }
  if (!links.empty()) {
    report.links = link_reports(topology_.graph, links, storms, end - Time::zero());
  }
  return report;
}

}  // namespace understudy
