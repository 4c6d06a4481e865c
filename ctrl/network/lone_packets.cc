#include "ctrl/network/lone_packets.h"

#include <algorithm>
#include <utility>

#include "ctrl/network/closed_links.h"
#include "ctrl/network/stuck_flows.h"
#include "dataplane/base/text_format.h"
#include "dataplane/cc/make_controller.h"

namespace understudy {
namespace {

/// Before somebody looks at how it goes on.
constexpr uint32_t kStepsAlone = 64;

FlowControl control_of(const Config& config, const FlowSpec& flow, const SenderPath& path) {
  FlowControl control;
  if (flow.control == kNoControl) {
    control.controller = make_controller(NoControlParameters(), path);
    return control;
  }
  const ControlConfig& named = config.controls[flow.control];
  SenderPath known = path;
  if (named.base_rtt) known.base_rtt = *named.base_rtt;
  control.controller = make_controller(named.parameters, known);
  if (const auto* dcqcn = std::get_if<DcqcnParameters>(&named.parameters)) {
    control.cnps = dcqcn->echo == DcqcnParameters::Echo::kCnp;
    control.cnp_interval = dcqcn->cnp_interval;
  }
  return control;
}

}  // namespace

FlowTraffic::MakeControl flow_controls(const Config& config) {
  return [&config](const FlowSpec& flow, Rate line, Duration base_rtt) {
    return control_of(config, flow, {line, base_rtt, config.queues.flows.payload});
  };
}

LonePackets::LonePackets(const Graph& graph, NextHops routing, NetworkSettings settings,
                         const std::vector<FlowSpec>& flows, FlowTraffic& traffic,
                         std::vector<FlowJob*> jobs)
    : LoneFlows(flows.size(), std::move(jobs)),
      routing_(std::move(routing)),
      settings_(std::move(settings)),
      traffic_(traffic),
      network_(graph, settings_, traffic, &routing_) {
  for (const FlowSpec& flow : flows) bytes_ += static_cast<double>(flow.bytes);
  expect(last_known_outage(graph));
  attach(traffic);
  traffic.start(network_);
  start_jobs();
}

void LonePackets::change(const RateChange& change) {
  const auto from = links_.begin() + static_cast<ptrdiff_t>(next_link_);
  links_.insert(std::ranges::upper_bound(from, links_.end(), change.at, {}, &RateChange::at),
                change);
  change_at_ = next_change();
  expect(change.at);
}

/// Something changes then: senders do not give up before the routing knows of it.
void LonePackets::expect(Time change) {
  last_change_ = std::max(last_change_, change + settings_.reconverge.value_or(Duration()));
  traffic_.give_up_after(last_change_);
}

void LonePackets::change(const GroupChange& change) {
  const auto from = groups_.begin() + static_cast<ptrdiff_t>(next_group_);
  groups_.insert(std::ranges::upper_bound(from, groups_.end(), change.at, {}, &GroupChange::at),
                 change);
  change_at_ = next_change();
}

void LonePackets::apply_changes(Time until) {
  for (Time at = next_change(); at <= until && !at.is_never(); at = next_change()) {
    for (; next_link_ < links_.size() && links_[next_link_].at == at; ++next_link_) {
      network_.change(links_[next_link_]);
    }
    for (; next_group_ < groups_.size() && groups_[next_group_].at == at; ++next_group_) {
      traffic_.set_running(groups_[next_group_].group, groups_[next_group_].running, at);
    }
  }
  change_at_ = next_change();
}

/// What happens until `t`, so many events of it at most.
void LonePackets::run(Time t, uint64_t most) {
  // Flows that have not all ended answer the question that comes with each event at once.
  for (; most != 0 && (!traffic_.at_rest() || !over()); --most) {
    const Time coming = network_.next();
    const Time at = std::min(coming, change_at_);
    if (at > t || at.is_never()) return;
    end_ = at;
    if (change_at_ <= at) {
      apply_changes(at);
      if (network_.next() > at) continue;
    }
    network_.step();
  }
}

void LonePackets::advance_to(Time t) { run(t, ~uint64_t{0}); }

Time LonePackets::advance_alone(Time t, Time limit) {
  advance_to(t);
  run(limit, kStepsAlone);
  return end_;
}

bool LonePackets::has_moved() {
  const bool moved =
      seen_finished_ != traffic_.finished() || seen_bytes_ != traffic_.delivered_bytes();
  seen_finished_ = traffic_.finished();
  seen_bytes_ = traffic_.delivered_bytes();
  return moved;
}

double LonePackets::share_done() const {
  if (const double done = jobs_done(); done >= 0) return done;
  return static_cast<double>(traffic_.delivered_bytes()) / bytes_;
}

std::string LonePackets::progress(double seconds) const {
  const char* what = jobs_done() >= 0 ? "work" : "bytes";
  return format_text("%5.1f %% of the %s, %zu flows ended, %.3f ms modelled, %.1f M events/s",
                     share_done() * 100, what, traffic_.finished(), end_.seconds() * 1e3,
                     static_cast<double>(network_.events()) / seconds / 1e6);
}

NamedCounts LonePackets::work() const {
  return {{"events", network_.events()},
          {"packets", network_.delivered()},
          {"bytes_of_memory", network_.memory_bytes() + traffic_.memory_bytes()}};
}

std::string LonePackets::why_at_rest(const Graph& graph) const {
  return why_stuck(graph, traffic_, network_, end_);
}

}  // namespace understudy
