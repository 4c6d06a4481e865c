#include "ctrl/run/emulator.h"

#include <algorithm>

#include "ctrl/network/closed_links.h"
#include "ctrl/network/deadlock.h"
#include "ctrl/network/link_changes.h"
#include "ctrl/network/stuck_flows.h"
#include "ctrl/run/commands_text.h"
#include "ctrl/validity/validity.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr unsigned kLooksWithoutProgress = 3;

}  // namespace

Result<std::unique_ptr<Emulator>> Emulator::create(const Scenario& scenario, bool recorded,
                                                   SharedNetwork::Said progress) {
  std::unique_ptr<Emulator> emulator(new Emulator(scenario));
  TRY(emulator->begin(recorded, std::move(progress)));
  emulator->make_shards();
  return emulator;
}

Result<void> Emulator::begin(bool recorded, SharedNetwork::Said progress) {
  const Config& config = scenario_.config;
  if (scenario_.topology != nullptr) {
    network_ = TRY(SharedNetwork::create(config, *scenario_.topology, !scenario_.real_side,
                                         std::move(progress)));
  }
  jobs_ = TRY(begin_jobs(scenario_, network_.get(), workload_, recorded));
  if (scenario_.training != nullptr) TRY(network_->carry(*scenario_.training));
  if (scenario_.traces != nullptr) TRY(network_->carry(scenario_.traces));
  if (!scenario_.real_side) return network_->stand_alone();
  return {};
}

void Emulator::make_shards() {
  ports_.resize(scenario_.ports);
  for (const ScenarioShard& made : scenario_.shards) {
    ShardConfig shard = made.config;
    if (network_ != nullptr) network_->enter(shard);
    sides_.push_back(std::make_unique<ShardSide>(shard));
    const std::vector<uint32_t> numbers = port_numbers(scenario_.config, made.ports);
    for (size_t i = 0; i < made.ports.size(); ++i) {
      ports_[made.ports[i]] = {sides_.back().get(), numbers[i], sides_.size() - 1};
    }
  }
  if (queues() != nullptr) search_.emplace(*queues());
}

const Network* Emulator::queues() const {
  if (network_ == nullptr) return nullptr;
  if (const LoneFlows* alone = network_->alone(); alone != nullptr) return alone->network();
  return sides_.front()->shard.network();
}

Emulator::Jobs Emulator::take_jobs(bool reference) {
  Jobs taken(jobs_.size());
  for (size_t j = 0; j < jobs_.size(); ++j) {
    if (scenario_.jobs[j].reference == reference) taken[j] = std::move(jobs_[j]);
  }
  return taken;
}

/// Something changes then, and the routing knows of it a while later.
void Emulator::expect(Time change) {
  const Duration after = network_settings(scenario_.config).reconverge.value_or(Duration());
  last_change_ = std::max(last_change_, change + after);
}

/// A number for the event, if it begins an outage.
uint32_t Emulator::outage_of(const EventConfig& event) {
  const bool begins = event.action == EventAction::kDown || event.action == EventAction::kPause ||
                      event.action == EventAction::kStorm;
  if (!begins || network_ == nullptr) return kNoOutage;
  outages_.push_back({command_text(scenario_.config, event), event.drill});
  return static_cast<uint32_t>(outages_.size() - 1);
}

/// Packets and rates may both have been stopped.
std::vector<OutageReport> Emulator::outage_reports() const {
  std::vector<OutageReport> reports;
  const FlowModel* rates = network_->rates();
  const auto packets = queues() == nullptr ? std::vector<Recovery>() : queues()->recoveries();
  for (size_t i = 0; i < outages_.size(); ++i) {
    OutageReport report;
    report.event = outages_[i].event;
    report.drill = outages_[i].drill;
    report.at = Time::never();
    const auto add = [&](const std::vector<Recovery>& all) {
      if (i >= all.size() || all[i].at.is_never()) return;
      report.at = all[i].at;
      if (!all[i].rerouted.is_never()) report.rerouted = all[i].rerouted;
      report.stopped += all[i].stopped;
      report.again += all[i].again;
      report.longest = std::max(report.longest, all[i].longest);
    };
    add(packets);
    if (rates != nullptr) add(rates->recoveries());
    if (!report.at.is_never()) reports.push_back(std::move(report));
  }
  return reports;
}

void Emulator::expect_no_more() {
  if (network_ == nullptr || network_->alone() != nullptr || network_->packets() == nullptr) return;
  network_->packets()->give_up_after(
      std::max(last_change_, last_known_outage(network_->topology().graph)));
}

void Emulator::change(const EventConfig& event, RunReport& report) {
  LoneFlows* alone = network_ == nullptr ? nullptr : network_->alone();
  if (event.is_of_traffic() && alone != nullptr) {
    alone->change(GroupChange{event.at, event.traffic, event.action == EventAction::kStart});
  } else if (event.is_of_traffic()) {
    sides_.front()->control.set_traffic(event.traffic, event.action == EventAction::kStart,
                                        event.at);
  }
  expect(event.at);
  // A reference node's own NIC keeps its rate: a slower link is the emulated queue's business.
  const uint32_t outage = outage_of(event);
  std::vector<RateChange> steps = steps_of(event);
  for (RateChange& step : steps) {
    step.outage = step.stops() ? outage : kNoOutage;
    expect(step.at);
    if (alone == nullptr && event.is_of_nodes_links()) {
      for (const auto& side : sides_) side->control.set_link(event.node, step);
      continue;
    }
    for (const RateChange& change : changes_of(event, step, network_->topology())) {
      if (alone != nullptr) alone->change(change);
      for (const auto& side : sides_) side->control.set_link(kNoNode, change);
    }
  }
  changes_.push_back(event);
  report.commands.push_back({event.at, command_text(scenario_.config, event)});
}

Result<void> Emulator::look_for_deadlock() {
  std::string heading = scenario_.config.path;
  if (const LoneFlows* alone = network_->alone()) heading += ": " + alone->unfinished();
  return understudy::find_no_deadlock(heading, network_->topology().graph, *queues(), *search_);
}

Result<void> Emulator::find_no_deadlock() {
  if (!search_) return {};
  LoneFlows* alone = network_->alone();
  if (alone != nullptr && alone->has_moved()) return {};  // looking takes longer than moving on
  return look_for_deadlock();
}

Result<void> Emulator::find_nothing_left() {
  const LoneFlows* alone = network_ == nullptr ? nullptr : network_->alone();
  if (alone != nullptr && alone->at_rest()) return {};
  if (search_) {
    if (auto found = look_for_deadlock(); !found) return found;
  }
  if (alone == nullptr) return {};
  const std::string why = alone->why_at_rest(network_->topology().graph);
  return fail(scenario_.config.path + ": " + alone->unfinished() + ": " + why);
}

/// What flows and real nodes have received.
uint64_t Emulator::progress() const {
  uint64_t progress = 0;
  if (const FlowTraffic* flows = network_->packets()) {
    progress = flows->delivered_bytes() + flows->finished();
  }
  for (const Port& port : ports_) {
    progress += port.side->shard.counters(port.number).rx_frames;
  }
  return progress;
}

Result<void> Emulator::find_no_standstill(Time now) {
  const FlowTraffic* flows = network_ == nullptr ? nullptr : network_->packets();
  if (flows == nullptr) return {};
  // Of a job whose messages do not come somebody else says so: the real node's queue pairs fail
  // too.
  if (flows->has_given_up() && flows->stuck().front() < network_->flows().size()) {
    return fail(stuck_text(now));
  }
  if (now <= last_change_) return {};
  if (flows->at_rest() && !is_busy(*flows)) return {};
  const uint64_t progress = this->progress();
  still_ = progress == progress_ ? still_ + 1 : 0;
  progress_ = progress;
  if (still_ < kLooksWithoutProgress) return {};
  if (closed_links(network_->topology().graph, *queues(), now).empty()) return {};
  return fail(stuck_text(now));
}

bool Emulator::is_held_up(const FlowsLook& look) const {
  const FlowTraffic* flows = network_ == nullptr ? nullptr : network_->packets();
  if (flows == nullptr || look.given_up >= flows->specs().size()) return false;
  return look.given_up >= network_->flows().size() ||
         scenario_.config.queues.flows.retries.has_value();
}

Result<void> Emulator::find_none_stuck(Time now) const {
  if (network_ == nullptr || network_->alone() != nullptr) return {};
  if (const FlowModel* rates = network_->rates()) {
    const size_t all = network_->flows().size(), ended = rates->finished() + rates->stopped();
    if (ended >= all) return {};
    return fail(scenario_.config.path + ": " + flows_never_end(all - ended, all) +
                why_stuck(network_->topology().graph, *rates));
  }
  const FlowTraffic* flows = network_->packets();
  if (flows == nullptr || (!flows->has_given_up() && flows->at_rest() && !is_busy(*flows)))
    return {};
  return fail(stuck_text(now));
}

/// Messages of jobs are under way, which stand behind the flows of [[traffic]].
bool Emulator::is_busy(const FlowTraffic& flows) const {
  for (size_t i = network_->flows().size(); i < flows.results().size(); ++i) {
    if (!flows.idle(static_cast<uint32_t>(i))) return true;
  }
  return false;
}

std::string Emulator::stuck_text(Time now) const {
  const Graph& graph = network_->topology().graph;
  const FlowTraffic& flows = *network_->packets();
  const LoneFlows* alone = network_->alone();
  const size_t all = flows.results().size(), ended = flows.finished() + flows.stopped();
  std::string what =
      ended == all ? "a job never ends: " : flows_never_end(all - ended, network_->flows().size());
  if (alone != nullptr) what = alone->unfinished() + ": ";
  return scenario_.config.path + ": " + what + why_stuck(graph, flows, *queues(), now);
}

ShardSnapshot Emulator::snapshot(size_t port, Time end) const {
  ShardSnapshot snapshot;
  const Shard& shard = ports_[port].side->shard;
  shard.fit(snapshot);
  shard.snapshot(snapshot, end, ports_[port].number);
  return snapshot;
}

std::vector<NetworkLinkCounters> Emulator::links(Time end) const {
  return sides_.empty() ? network_->own_links(end) : snapshot(0, end).network;
}

void Emulator::report(RunReport& report, Time end,
                      const std::function<PortCounters(size_t)>& device) const {
  const Config& config = scenario_.config;
  if (network_ != nullptr) {
    report.outages = outage_reports();
    if (queues() != nullptr) {
      report.closed = closed_links(network_->topology().graph, *queues(), end);
    }
  } else {
    // In virtual time all that was to happen has happened, whatever ended last.
    const bool all = scenario_.clock == RunClock::kVirtual;
    report.closed = closed_nodes(config, changes_, all ? Time::never() : end);
  }
  for (size_t i = 0; i < ports_.size(); ++i) {
    const ShardSnapshot taken = snapshot(i, end);
    const PortConfig& port = config.ports[i];
    report.ports.push_back(port_report(config.nodes[port.node].name, port, config,
                                       ports_[i].side->shard.node_table(), taken, device(i)));
    if (!ports_[i].first()) leave_out_shared(report.ports.back());
  }
  std::span<const FlowSpec> flows;
  if (network_ != nullptr) {
    const auto storms =
        queues() == nullptr ? std::vector<StormCounters>() : queues()->storms_at(end);
    report.traffic = network_->report(links(end), storms, end);
    flows = network_->all_flows();
  }
  report.validity = run_validity(scenario_, report, flows);
}

}  // namespace understudy
