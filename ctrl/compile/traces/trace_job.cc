#include "ctrl/compile/traces/trace_job.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "ctrl/compile/rank_job.h"
#include "ctrl/compile/traces/trace_parts.h"
#include "ctrl/compile/ways/node_way.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Of rates: an operation has one on each connection, of some 200 bytes.
constexpr uint64_t kMostFlows = 20'000'000;

using TraceSchedules = std::vector<std::shared_ptr<const RankSchedule>>;

class TraceJobBuilder {
 public:
  TraceJobBuilder(const Config& config, std::shared_ptr<const TracePlan> plan,
                  const Topology& topology)
      : config_(config), topology_(topology), routes_(topology.routes(config.seed)) {
    made_ = std::make_unique<TraceOnNetwork>();
    made_->plan = std::move(plan);
    carried_.resize(all().size());
  }

  Result<void> place() {
    uint32_t inside = 0;
    for (const TraceCommunicator& one : all()) {
      auto members = trace_members(*made_->plan, one);
      if (!members) return no("workload: " + members.error().text);
      if (members->crosses()) on_network_.push_back(static_cast<uint32_t>(members_.size()));
      if (!members->crosses() && one.ranks.size() > 1) ++inside;
      members_.push_back(*std::move(members));
    }
    if (inside > 0 && !node_way(config_)) {
      return no(
          "workload: GPUs of a node talk to each other, which takes time: give [intra_node] "
          "gpu_link");
    }
    made_->closed = ClosedOperations(static_cast<uint32_t>(on_network_.size()));
    for (uint32_t i = 0; i < all().size(); ++i) {
      if (members_[i].crosses()) continue;
      std::vector<ClosedTime> times;
      for (const TraceShape& shape : all()[i].shapes) {
        times.push_back({trace_inside_time(config_, all()[i], shape), Duration()});
      }
      const uint32_t number =
          made_->closed.add(static_cast<uint32_t>(all()[i].ranks.size()), all()[i].messages,
                            std::make_shared<const std::vector<ClosedTime>>(std::move(times)));
      carried_[i] = {&made_->closed, number};
    }
    return {};
  }
  bool has_network() const { return !on_network_.empty(); }

  Result<void> add_packets(std::vector<FlowSpec>& flows, uint32_t& first_connection);
  Result<void> add_rates(std::vector<FlowSpec>& flows, uint32_t& first_connection);

  std::unique_ptr<TraceOnNetwork> finish() {
    const TracePlan& plan = *made_->plan;
    made_->run = std::make_unique<TraceRun>(plan.job, plan.orders, plan.settings,
                                            plan.communicators(), std::move(carried_));
    TraceRun* run = made_->run.get();
    made_->closed.listen(*run);
    made_->clock = std::make_unique<TraceClock>(*run);
    const auto done = [run] { return run->share_done(); };
    if (made_->packets != nullptr) {
      made_->packets->listen(*run);
      made_->packets->begin_with([] {}, done);
    }
    if (made_->rates != nullptr) {
      made_->rates->listen(*run);
      made_->rates->begin_with([] {}, done);
    }
    return std::move(made_);
  }

 private:
  const std::vector<TraceCommunicator>& all() const { return made_->plan->communicators().all(); }
  tl::unexpected<Error> no(const std::string& text) const {
    return fail(config_.path + ":" + std::to_string(config_.workload->line) + ": " + text);
  }
  PacketLevelRanksSettings settings() const {
    JobConfig job;
    job.sender = config_.workload->sender;
    return rank_traffic_settings(config_, job);
  }
  /// What an operation is, of all communicators of one form.
  struct Parts {
    TraceSchedules schedules;
    std::vector<TraceFlow> flows;  ///< of rates
    Duration behind;
  };
  /// The time behind is that of the first such communicator.
  Result<const Parts*> parts(uint32_t communicator, const TraceShape& shape) {
    const TraceCommunicator& one = all()[communicator];
    const TraceMembers& members = members_[communicator];
    const auto [it, fresh] =
        parts_.try_emplace({shape.collective, shape.bytes, one.ranks.size(), members.together});
    if (!fresh) return &it->second;
    it->second.schedules = TRY(trace_schedules(config_, members, one, shape));
    if (config_.fabric.fidelity != FabricFidelity::kFlow) return &it->second;
    it->second.flows = trace_flows(it->second.schedules);
    it->second.behind = trace_steps_time(config_, topology_, routes_, members, one, shape);
    return &it->second;
  }

  const Config& config_;
  const Topology& topology_;
  std::unique_ptr<TraceOnNetwork> made_;
  std::vector<TraceMembers> members_;  ///< by communicator
  std::vector<uint32_t> on_network_;   ///< communicators
  std::vector<TraceRun::Carried> carried_;
  using Key = std::tuple<std::optional<TraceCollective>, uint64_t, size_t, uint32_t>;
  std::map<Key, Parts> parts_;
  Routes routes_;
};

Result<void> TraceJobBuilder::add_packets(std::vector<FlowSpec>& flows,
                                          uint32_t& first_connection) {
  std::vector<PacketCommunicator> communicators;
  for (const uint32_t c : on_network_) {
    PacketCommunicator& one = communicators.emplace_back();
    for (const TraceShape& shape : all()[c].shapes) {
      one.shapes.push_back(TRY(parts(c, shape))->schedules);
    }
  }
  const auto ways_of = [&](uint32_t number, const Connection& connection) {
    const MessageWays::Way way = trace_way(config_, topology_, members_[on_network_[number]],
                                           connection.from, connection.to);
    return message_ways({&way.from, 1}, {&way.to, 1});
  };
  made_->packets =
      std::make_unique<CommunicatorPackets>(std::move(communicators), 0, settings(), ways_of);
  first_connection = made_->packets->add_flows(flows, first_connection);
  made_->connections = static_cast<uint32_t>(made_->packets->connections());
  for (uint32_t i = 0; i < on_network_.size(); ++i) {
    carried_[on_network_[i]] = {made_->packets.get(), i};
  }
  return {};
}

Result<void> TraceJobBuilder::add_rates(std::vector<FlowSpec>& flows, uint32_t& first_connection) {
  std::vector<RateCommunicator> communicators;
  uint64_t count = flows.size();
  for (const uint32_t c : on_network_) {
    const TraceCommunicator& known = all()[c];
    RateCommunicator& one = communicators.emplace_back();
    one.members = static_cast<uint32_t>(known.ranks.size());
    one.message = known.messages;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> ways;
    for (uint32_t s = 0; s < known.shapes.size(); ++s) {
      const TraceShape& shape = known.shapes[s];
      RateShape& made = one.shapes.emplace_back();
      const Parts& known_parts = *TRY(parts(c, shape));
      for (const TraceFlow& flow : known_parts.flows) {
        const auto [it, fresh] = ways.try_emplace(flow.key(), ways.size());
        if (fresh) {
          one.ways.push_back(trace_way(config_, topology_, members_[c], flow.from, flow.to));
        }
        made.ways.push_back(it->second);
        made.bytes.push_back(flow.bytes);
      }
      made.behind = known_parts.behind;
      if (is_nothing(shape)) continue;
      one.operations.insert(one.operations.end(), shape.count, s);
      count += shape.count * made.ways.size();
    }
    if (count > kMostFlows) {
      return no(
          "workload: its operations are more than " + std::to_string(kMostFlows) +
          " flows: take packets (fabric.fidelity = \"packet\"), or fewer nodes of the traces");
    }
    made_->connections += static_cast<uint32_t>(one.ways.size());
  }
  made_->rates = std::make_unique<CommunicatorRates>(std::move(communicators), 0, settings());
  first_connection = made_->rates->add_flows(flows, first_connection);
  for (uint32_t i = 0; i < on_network_.size(); ++i) {
    carried_[on_network_[i]] = {made_->rates.get(), i};
  }
  return {};
}

}  // namespace

uint32_t TraceClock::attach(FlowCarrier& carrier, uint32_t first_wake) {
  wake_ = first_wake;
  carrier.listen(*this);
  run_.wake_with([&carrier, first_wake](Time at) { carrier.wake_listener(at, first_wake); });
  return first_wake + 1;
}

std::vector<FlowJob*> TraceOnNetwork::jobs() const {
  std::vector<FlowJob*> out{clock.get()};
  if (packets != nullptr) out.push_back(packets.get());
  if (rates != nullptr) out.push_back(rates.get());
  return out;
}

std::unique_ptr<TraceOnNetwork> close_traces(std::shared_ptr<const TracePlan> plan,
                                             const TraceTimes& times) {
  auto made = std::make_unique<TraceOnNetwork>();
  made->plan = std::move(plan);
  const TracePlan& known = *made->plan;
  std::vector<TraceRun::Carried> carried;
  for (const TraceCommunicator& one : known.communicators().all()) {
    auto all = std::make_shared<const std::vector<ClosedTime>>(times(one));
    carried.push_back({&made->closed, made->closed.add(static_cast<uint32_t>(one.ranks.size()),
                                                       one.messages, std::move(all))});
  }
  made->run = std::make_unique<TraceRun>(known.job, known.orders, known.settings,
                                         known.communicators(), std::move(carried));
  made->closed.listen(*made->run);
  return made;
}

Result<std::unique_ptr<TraceOnNetwork>> build_traces(const Config& config,
                                                     std::shared_ptr<const TracePlan> plan,
                                                     const Topology& topology,
                                                     std::vector<FlowSpec>& flows,
                                                     uint32_t& first_connection) {
  TraceJobBuilder builder(config, std::move(plan), topology);
  TRY(builder.place());
  if (builder.has_network() && config.fabric.fidelity == FabricFidelity::kFlow) {
    TRY(builder.add_rates(flows, first_connection));
  } else if (builder.has_network()) {
    TRY(builder.add_packets(flows, first_connection));
  }
  return builder.finish();
}

}  // namespace understudy
