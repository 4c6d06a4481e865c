#include "ctrl/build/collective.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "collective_model/environment.h"
#include "ctrl/build/job_hops.h"
#include "ctrl/build/job_schedule.h"
#include "ctrl/build/modelled_time.h"
#include "ctrl/config/job_operation.h"

namespace understudy {
namespace {

EnvironmentConfig plan_config(const Config& config, const JobConfig& job,
                              const Communicator& communicator, const JobSchedule& schedule,
                              const Topology* topology) {
  EnvironmentConfig plan;
  for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
    plan.ranks.push_back(rank_schedule(communicator, schedule.operation, schedule.cut, rank));
    if (!job.skew.empty()) {
      plan.entry_delay.push_back(job.skew[communicator.node_of(rank)]);
    }
  }
  plan.hops = job_hops(config, job, communicator, schedule.operation, plan.ranks, topology);
  const NodeConfig& first = config.nodes[job.ranks.front()];
  plan.wire = wire_cost(config, first.nics[communicator.first_nic]);
  plan.step_cost = job.step_cost;
  return plan;
}

class Builder {
 public:
  Builder(const Config& config, const JobConfig& job, const Topology* topology)
      : config_(config),
        job_(job),
        communicator_(job_communicator(config, job)),
        setup_(std::make_unique<CollectiveSetup>()) {
    setup_->topology = topology;
  }

  Result<std::unique_ptr<CollectiveSetup>> build(bool scheduled) {
    if (auto known = check(); !known) return tl::unexpected(known.error());
    CollectiveJob& out = setup_->job;
    setup_->gpus = communicator_.gpus;
    setup_->nic = communicator_.first_nic;
    out.scheduled = scheduled;
    out.interval = job_.interval;
    out.step_cost = job_.step_cost;
    out.exact = job_.payload == PayloadMode::kExact;
    out.seed = config_.seed;
    out.real_index.assign(communicator_.ranks(), CollectiveJob::kEmulated);
    for (uint32_t rank = 0; rank < communicator_.ranks(); ++rank) {
      const uint32_t node = communicator_.node_of(rank);
      if (!job_.skew.empty()) out.delay.push_back(job_.skew[node]);
      if (!config_.nodes[job_.ranks[node]].real) continue;
      out.real_index[rank] = static_cast<uint32_t>(out.real.size());
      out.real.push_back(rank);
    }
    const auto schedules = job_schedules(config_, job_);
    if (!schedules) return tl::unexpected(schedules.error());
    setup_->algorithm = schedules->front().operation.algorithm;
    setup_->protocol = schedules->front().operation.protocol;
    std::vector<EnvironmentConfig> plans;
    for (const JobSchedule& schedule : *schedules) {
      if (schedule.operation.algorithm != setup_->algorithm) setup_->algorithm.reset();
      if (schedule.operation.protocol != setup_->protocol) setup_->protocol.reset();
      plans.push_back(plan_config(config_, job_, communicator_, schedule, setup_->topology));
      plans.back().real = out.real;
      if (auto made = add_shape(plans.back(), schedule.bytes); !made) {
        return tl::unexpected(made.error());
      }
    }
    ModelledTimes times(out);
    for (size_t i = 0; i < plans.size(); ++i) {
      if (auto made = add_operations(*setup_->shapes[i], plans[i], times); !made) {
        return tl::unexpected(made.error());
      }
    }
    return std::move(setup_);
  }

  Result<void> check() const;

 private:
  tl::unexpected<Error> error(const std::string& text) const {
    return fail(config_.path + ":" + std::to_string(job_.line) + ": job: " + text);
  }

  Result<void> add_shape(const EnvironmentConfig& plan, uint64_t bytes) {
    auto shape = std::make_unique<CollectiveShape>();
    shape->bytes = bytes;
    std::vector<const RankSchedule*> all;
    for (const auto& rank : plan.ranks) all.push_back(rank.get());
    const auto far = far_ends(all);
    if (!far) return error("a connection has one end only");
    shape->links.resize(all.size());
    for (const uint32_t rank : setup_->job.real) {
      shape->real.push_back(plan.ranks[rank]);
      shape->far.push_back((*far)[rank]);
      const std::vector<Connection>& connections = all[rank]->connections();
      shape->links[rank].assign(connections.size(), CollectiveShape::kUnused);
      for (uint32_t c = 0; c < connections.size(); ++c) {
        const Connection& connection = connections[c];
        if (!connection.network || connection.messages == 0) continue;
        const FarEnd& other = (*far)[rank][c];
        const bool sends = connection.direction == Direction::kSend;
        const RingHop& hop = sends ? plan.hops[rank][c] : plan.hops[other.rank][other.connection];
        const uint32_t link = link_of(connection, other.rank, rank, hop.latency);
        shape->links[rank][c] = link;
        std::vector<uint32_t>& theirs = shape->links[other.rank];
        theirs.resize(all[other.rank]->connections().size(), CollectiveShape::kUnused);
        theirs[other.connection] = link;
        if (shape->uses.size() <= link) shape->uses.resize(link + 1);
        if (shape->uses[link].messages != 0) return error("two connections are one of NCCL's");
        shape->uses[link] = {c, other.connection, connection.messages};
      }
    }
    setup_->shapes.push_back(std::move(shape));
    return {};
  }

  uint32_t link_of(const Connection& c, uint32_t emulated, uint32_t real, Duration latency) {
    const auto [it, fresh] = numbers_.try_emplace({c.from, c.to, c.channel, c.index},
                                                  static_cast<uint32_t>(setup_->job.links.size()));
    if (fresh) {
      CollectiveLink link;
      link.real = real;
      link.emulated = emulated;
      link.channel = c.channel;
      link.index = c.index;
      link.real_sends = c.direction == Direction::kSend;
      link.latency = latency;
      setup_->job.links.push_back(link);
    }
    CollectiveLink& link = setup_->job.links[it->second];
    link.slots = std::max(link.slots, c.window);
    link.slot_bytes = std::max(link.slot_bytes, c.capacity);
    return it->second;
  }

  Result<void> add_operations(CollectiveShape& shape, const EnvironmentConfig& plan,
                              ModelledTimes& times) {
    CollectiveJob& out = setup_->job;
    shape.uses.resize(out.links.size());
    auto ideal = Environment::make_ideal(plan);
    if (!ideal) return error(ideal.error().text);
    shape.plans.resize(CollectiveJob::kInFlight);
    for (uint32_t i = 0; i < job_.warmup + job_.iterations; ++i) {
      Plan*& slot = shape.plans[out.operations.size() % CollectiveJob::kInFlight];
      if (slot == nullptr) {
        auto made = make_plan(plan);
        if (!made) return error(made.error().text);
        setup_->plans.push_back(std::move(*made));
        slot = setup_->plans.back().get();
      }
      out.operations.push_back(&shape);
      setup_->modelled.push_back(times.next(*ideal));
    }
    return {};
  }

  const Config& config_;
  const JobConfig& job_;
  const Communicator communicator_;
  std::unique_ptr<CollectiveSetup> setup_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>, uint32_t> numbers_;
};

Result<void> Builder::check() const {
  if (job_.group) {
    return error("found group = true: operations follow each other beside a real node so far");
  }
  const auto real =
      std::ranges::count_if(job_.ranks, [&](NodeId node) { return config_.nodes[node].real; });
  if (real == 0) return error("found no real node: it needs ranks on a node with real = true");
  if (real > 1) {
    return error("found " + std::to_string(real) +
                 " real nodes: several in one job are not supported yet");
  }
  if (communicator_.nics > 1) {
    return error("found nodes with " + std::to_string(communicator_.nics) +
                 " NICs and several ranks each: the ranks of a real node share one NIC so far");
  }
  for (const NodeId node : job_.ranks) {
    if (!config_.nodes[node].real) continue;
    const bool joined = std::ranges::any_of(config_.ports, [&](const PortConfig& port) {
      return port.node == node && port.nic == communicator_.first_nic;
    });
    if (joined) continue;
    return error("there is no [[port]] for NIC " + std::to_string(communicator_.first_nic) +
                 " of its real node \"" + config_.nodes[node].name + "\"");
  }
  if (job_.payload == PayloadMode::kExact && !is_plain_ring(config_, job_)) {
    return error(
        "found payload = \"exact\": values are reduced in \"all_reduce\" by \"ring\" and "
        "\"simple\" of float32, with one rank a node");
  }
  const auto schedules = job_schedules(config_, job_);
  if (!schedules) return tl::unexpected(schedules.error());
  return {};
}

}  // namespace

Result<std::unique_ptr<CollectiveSetup>> build_collective(const Config& config,
                                                          const JobConfig& job, bool scheduled,
                                                          const Topology* topology) {
  return Builder(config, job, topology).build(scheduled);
}

std::string why_not_simulated(const Config& config) {
  if (all_emulated(config)) return "";
  for (const JobConfig& job : config.jobs) {
    const auto checked = Builder(config, job, nullptr).check();
    if (!checked) return checked.error().text;
  }
  return "";
}

Result<std::vector<Duration>> modelled_times(const Config& config, const JobConfig& job,
                                             const Topology* topology) {
  const auto schedules = job_schedules(config, job);
  if (!schedules) return tl::unexpected(schedules.error());
  const Communicator communicator = job_communicator(config, job);
  std::vector<Duration> times;
  for (const JobSchedule& schedule : *schedules) {
    auto ideal =
        Environment::make_ideal(plan_config(config, job, communicator, schedule, topology));
    if (!ideal) return tl::unexpected(ideal.error());
    ideal->start(Time::zero());
    Duration longest;
    for (uint32_t rank = 0; rank < communicator.ranks(); ++rank) {
      longest = std::max(longest, ideal->completion(rank) - Time::zero());
    }
    times.push_back(longest);
  }
  return times;
}

}  // namespace understudy
