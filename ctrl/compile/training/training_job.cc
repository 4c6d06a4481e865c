#include "ctrl/compile/training/training_job.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ctrl/compile/rank_job.h"
#include "ctrl/compile/training/training_communicators.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = TrainingFamily::Kind;
/// Of one operation, by member.
using Shape = std::vector<std::shared_ptr<const RankSchedule>>;

class JobBuilder {
 public:
  JobBuilder(const Config& config, TrainingPlan plan)
      : config_(config), parallel_(config.training->parallel) {
    job_ = std::make_unique<TrainingJob>();
    job_->plan = std::move(plan);
    families_ = job_->plan.graph.communicators;
    carriers_.resize(families_.size());
  }

  const TrainingPlan& plan() const { return job_->plan; }
  const std::vector<TrainingFamily>& families() const { return plan().graph.families; }

  /// Communicators of the families that `crosses` says yes of come first.
  template <typename Crosses>
  void number(Crosses crosses) {
    for (size_t f = 0; f < families_.size(); ++f) {
      if (!crosses(families()[f])) continue;
      families_[f].first = communicators_;
      communicators_ += families_[f].width * rounds(families()[f]);
      on_network_.push_back(static_cast<uint32_t>(f));
    }
  }
  /// How often the family has its width.
  uint32_t rounds(const TrainingFamily& family) const {
    if (family.of_replicas()) return parts_of(parallel_, family);
    return family.pairs() ? parallel_.replicas() : 1;
  }

  void close(const FamilyTimes& times) {
    job_->closed = ClosedOperations(communicators_);
    for (size_t f = 0; f < families_.size(); ++f) {
      if (std::ranges::find(on_network_, f) != on_network_.end()) continue;
      const TrainingFamily& family = families()[f];
      const auto known = std::make_shared<const std::vector<ClosedTime>>(times(family));
      ASSERT_INVARIANT(known->size() == family.operations.size());
      CommunicatorFamily& made = families_[f];
      made.width = 1;
      made.first = communicators_;
      for (uint32_t i = 0; i < rounds(family); ++i, ++communicators_) {
        job_->closed.add(family.members, family.kind == Kind::kMessages, known);
      }
      carriers_[f] = &job_->closed;
    }
  }

  Result<void> add_packets(const Topology& topology, std::vector<FlowSpec>& flows,
                           uint32_t& first_connection);
  void add_rates(const Topology& topology, std::vector<FlowSpec>& flows,
                 uint32_t& first_connection);

  /// Rates have a flow for each connection and operation.
  Result<void> check_flows() const {
    constexpr uint64_t kMost = 20'000'000;
    uint64_t count = 0;
    for (const uint32_t f : on_network_) {
      const TrainingFamily& family = families()[f];
      const uint64_t together = family.of_replicas() ? members_together(plan(), family) : 1;
      const uint64_t pairs = family.kind == Kind::kExperts
                                 ? family.members * (family.members - together)
                                 : family.members;
      count += family.operations.size() * families_[f].width * rounds(family) * pairs;
    }
    if (count <= kMost) return {};
    return tl::unexpected(Error{config_.path + ":" +
                                std::to_string(config_.training->parallel_line) +
                                ": parallel: as rates the iterations would have " +
                                std::to_string(count) + " flows; at most " + std::to_string(kMost) +
                                " are carried out (understudy predict has no such limit)"});
  }

  std::unique_ptr<TrainingJob> finish() {
    job_->workload = std::make_unique<WorkloadCommunicators>(plan().graph.workload, families_,
                                                             std::move(carriers_));
    WorkloadCommunicators* workload = job_->workload.get();
    job_->closed.listen(*workload);
    const auto begin = [workload] { workload->begin(); };
    const auto done = [workload] { return workload->share_done(); };
    if (job_->packets != nullptr) {
      job_->packets->listen(*workload);
      job_->packets->begin_with(begin, done);
    }
    if (job_->rates != nullptr) {
      job_->rates->listen(*workload);
      job_->rates->begin_with(begin, done);
    }
    return std::move(job_);
  }
  bool has_network() const { return !on_network_.empty(); }

 private:
  PacketLevelRanksSettings settings() const {
    JobConfig job;
    job.sender = config_.training->sender;
    return rank_traffic_settings(config_, job);
  }
  Result<Shape> shape_of(const TrainingFamily& family, const FamilyOperation& operation);
  /// A pair's operation, from member 0 to member 1 or of both.
  JobConfig pair_job(const TrainingFamily& family, const FamilyOperation& operation) const;

  const Config& config_;
  const Parallel& parallel_;
  std::unique_ptr<TrainingJob> job_;
  std::vector<CommunicatorFamily> families_;
  std::vector<CommunicatorCarrier*> carriers_;
  std::vector<uint32_t> on_network_;  ///< families
  uint32_t communicators_ = 0;
  /// By kind of family and operation: communicators of one size are alike but for their NICs.
  std::map<std::tuple<Kind, TrainingTransfer, uint64_t>, Shape> shapes_;
};

JobConfig JobBuilder::pair_job(const TrainingFamily& family,
                               const FamilyOperation& operation) const {
  JobConfig job =
      replicas_job(config_, plan(), family, collective_of(operation.transfer), {operation.bytes});
  job.ranks = {plan().places.node(family.stage, 0), plan().places.node(family.to, 0)};
  job.gpus = job.channels = 1;
  job.child.reset();
  job.nic = 0;
  job.skew.assign(2, Duration());
  if (family.kind == Kind::kMessages) {
    job.type = DataType::kInt8;
    job.matrix = {0, operation.bytes, 0, 0};
  }
  return job;
}

Result<Shape> JobBuilder::shape_of(const TrainingFamily& family, const FamilyOperation& operation) {
  const auto [it, fresh] = shapes_.try_emplace({family.kind, operation.transfer, operation.bytes});
  if (!fresh) return it->second;
  const JobConfig job = family.of_replicas()
                            ? replicas_job(config_, plan(), family,
                                           collective_of(operation.transfer), {operation.bytes})
                            : pair_job(family, operation);
  Communicator communicator = job_communicator(config_, job);
  communicator.pxn = false;
  const auto schedules = TRY(job_schedules(config_, job));
  it->second = rank_schedules(communicator, schedules.front().operation, schedules.front().cut);
  return it->second;
}

Result<void> JobBuilder::add_packets(const Topology& topology, std::vector<FlowSpec>& flows,
                                     uint32_t& first_connection) {
  std::vector<PacketCommunicator> communicators;
  struct Owner {
    uint32_t family = 0, number = 0;
  };
  std::vector<Owner> owners;
  for (const uint32_t f : on_network_) {
    const TrainingFamily& family = families()[f];
    PacketCommunicator one;
    std::map<std::pair<TrainingTransfer, uint64_t>, uint32_t> known;
    for (const FamilyOperation& operation : family.operations) {
      const auto [it, fresh] =
          known.try_emplace({operation.transfer, operation.bytes}, known.size());
      if (fresh) one.shapes.push_back(TRY(shape_of(family, operation)));
      one.operations.push_back(it->second);
    }
    const uint32_t count = families_[f].width * rounds(family);
    for (uint32_t i = 0; i < count; ++i) {
      communicators.push_back(one);
      owners.push_back({f, i});
    }
  }
  const auto ways_of = [&](uint32_t communicator, const Connection& connection) {
    const auto [f, number] = owners[communicator];
    const TrainingFamily& family = families()[f];
    if (family.of_replicas()) {
      const uint32_t part = number / parallel_.tp, tensor = number % parallel_.tp;
      const GpuPlace from = member_place(plan(), family, part, connection.from, tensor),
                     to = member_place(plan(), family, part, connection.to, tensor);
      ASSERT_INVARIANT(from.node != to.node);
      const VertexId a = nic_of(config_, topology, from), b = nic_of(config_, topology, to);
      return message_ways({&a, 1}, {&b, 1});
    }
    const MessageWays::Way way =
        pair_way(config_, plan(), topology, family, number / parallel_.tp, number % parallel_.tp);
    const VertexId a = connection.from == 0 ? way.from : way.to,
                   b = connection.from == 0 ? way.to : way.from;
    return message_ways({&a, 1}, {&b, 1});
  };
  job_->packets =
      std::make_unique<CommunicatorPackets>(std::move(communicators), 0, settings(), ways_of);
  first_connection = job_->packets->add_flows(flows, first_connection);
  job_->connections = static_cast<uint32_t>(job_->packets->connections());
  for (const uint32_t f : on_network_) carriers_[f] = job_->packets.get();
  return {};
}

void JobBuilder::add_rates(const Topology& topology, std::vector<FlowSpec>& flows,
                           uint32_t& first_connection) {
  Routes routes = topology.routes(config_.seed);
  std::vector<RateCommunicator> communicators;
  for (const uint32_t f : on_network_) {
    const TrainingFamily& family = families()[f];
    const uint32_t count = families_[f].width * rounds(family);
    std::vector<Duration> behind;  // of the first one, and alike for all
    for (uint32_t i = 0; i < count; ++i) {
      RateCommunicator one;
      one.members = family.members;
      one.message = family.kind == Kind::kMessages;
      if (family.of_replicas()) {
        one.ways =
            member_ways(config_, plan(), topology, family, i / parallel_.tp, i % parallel_.tp);
      } else {
        one.ways = {
            pair_way(config_, plan(), topology, family, i / parallel_.tp, i % parallel_.tp)};
        if (!one.message) one.ways.push_back({one.ways[0].to, one.ways[0].from});
      }
      for (const FamilyOperation& operation : family.operations) {
        const auto number = static_cast<uint32_t>(one.operations.size());
        if (i == 0) {
          behind.push_back(
              steps_time(config_, plan(), topology, routes, one.ways.front(), family, operation));
        }
        one.shapes.push_back({{}, {way_bytes(plan(), family, operation)}, behind[number]});
        one.operations.push_back(number);
      }
      job_->connections += static_cast<uint32_t>(one.ways.size());
      communicators.push_back(std::move(one));
    }
  }
  job_->rates = std::make_unique<CommunicatorRates>(std::move(communicators), 0, settings());
  first_connection = job_->rates->add_flows(flows, first_connection);
  for (const uint32_t f : on_network_) carriers_[f] = job_->rates.get();
}

}  // namespace

std::vector<ClosedTime> inside_times(const Config& config, const TrainingPlan& plan,
                                     const Topology& topology, const TrainingFamily& family) {
  const Parallel& parallel = config.training->parallel;
  std::vector<ClosedTime> out;
  for (const FamilyOperation& operation : family.operations) {
    if (family.kind == Kind::kNorm) {
      out.push_back({Duration(), norm_time(config, plan, parallel, topology)});
      continue;
    }
    const auto bytes = static_cast<double>(operation.bytes);
    out.push_back({inside_time(config, operation.transfer, bytes, family.members), Duration()});
  }
  return out;
}

std::unique_ptr<TrainingJob> close_training(const Config& config, TrainingPlan plan,
                                            const FamilyTimes& times) {
  JobBuilder builder(config, std::move(plan));
  builder.close(times);
  return builder.finish();
}

Result<std::unique_ptr<TrainingJob>> build_training_job(const Config& config, TrainingPlan plan,
                                                        const Topology& topology,
                                                        std::vector<FlowSpec>& flows,
                                                        uint32_t& first_connection) {
  JobBuilder builder(config, std::move(plan));
  builder.number(
      [&](const TrainingFamily& family) { return crosses_network(builder.plan(), family); });
  builder.close([&](const TrainingFamily& family) {
    return inside_times(config, builder.plan(), topology, family);
  });
  if (builder.has_network() && config.fabric.fidelity == FabricFidelity::kFlow) {
    TRY(builder.check_flows());
    builder.add_rates(topology, flows, first_connection);
  } else if (builder.has_network()) {
    TRY(builder.add_packets(topology, flows, first_connection));
  }
  return builder.finish();
}

}  // namespace understudy
