#include "ctrl/compile/training/training_communicators.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/assert.h"

namespace understudy {

bool crosses_network(const TrainingPlan& plan, const TrainingFamily& family) {
  if (family.of_replicas()) return family.members > members_together(plan, family);
  return family.pairs() && !plan.places.one_node(family.stage, 0, family.to, 0);
}

uint32_t members_together(const TrainingPlan& plan, const TrainingFamily& family) {
  return std::min(family.members, std::max(1U, plan.places.together() / family.stride));
}

uint32_t parts_of(const Parallel& parallel, const TrainingFamily& family) {
  return parallel.replicas() / family.members;
}

GpuPlace member_place(const TrainingPlan& plan, const TrainingFamily& family, uint32_t part,
                      uint32_t member, uint32_t tensor) {
  return plan.places.place(family.stage, family.replica(part, member), tensor);
}

uint32_t channels_of(const TrainingPlan& plan, const TrainingFamily& family) {
  return family.kind == TrainingFamily::Kind::kContext ? 1 : members_together(plan, family);
}

Collective collective_of(TrainingTransfer transfer) {
  switch (transfer) {
    case TrainingTransfer::kAllReduce:
      return Collective::kAllReduce;
    case TrainingTransfer::kAllGather:
      return Collective::kAllGather;
    case TrainingTransfer::kReduceScatter:
      return Collective::kReduceScatter;
    case TrainingTransfer::kAllToAll:
      return Collective::kAllToAll;
    case TrainingTransfer::kSend:
    case TrainingTransfer::kReceive:
      break;
  }
  return Collective::kAllToAllV;
}

JobConfig replicas_job(const Config& config, const TrainingPlan& plan, const TrainingFamily& family,
                       Collective collective, std::vector<uint64_t> sizes) {
  const Parallel& parallel = config.training->parallel;
  JobConfig job;
  job.name = "model";
  job.collective = collective;
  const bool reduces =
      collective == Collective::kAllReduce || collective == Collective::kReduceScatter;
  job.type = reduces && parallel.gradient_bytes == 4 ? DataType::kFloat32 : DataType::kBfloat16;
  const uint32_t together = members_together(plan, family);
  for (uint32_t member = 0; member < family.members; member += together) {
    job.ranks.push_back(member_place(plan, family, 0, member, 0).node);
  }
  job.gpus = together;
  job.channels = channels_of(plan, family);
  job.nic = nic_number(config, member_place(plan, family, 0, 0, 0));
  if (together > 1) {
    ChildConfig child;
    const uint32_t last = nic_number(config, member_place(plan, family, 0, together - 1, 0));
    const uint32_t apart = last - job.nic;
    child.nics = apart == 0 ? 1 : together;
    child.nic_stride = apart == 0 ? 1 : apart / (together - 1);
    job.child = child;
  }
  job.sizes = std::move(sizes);
  job.skew.assign(job.ranks.size(), Duration());
  job.sender = config.training->sender;
  job.line = config.training->line;
  return job;
}

std::vector<MessageWays::Way> member_ways(const Config& config, const TrainingPlan& plan,
                                          const Topology& topology, const TrainingFamily& family,
                                          uint32_t part, uint32_t tensor) {
  const uint32_t together = members_together(plan, family), nodes = family.members / together;
  const auto nic = [&](uint32_t member) {
    return nic_of(config, topology, member_place(plan, family, part, member, tensor));
  };
  std::vector<MessageWays::Way> out;
  if (family.kind == TrainingFamily::Kind::kExperts) {
    // In the order in which NCCL's send and receive begin: with the next node.
    for (uint32_t apart = 1; apart < nodes; ++apart) {
      for (uint32_t from = 0; from < family.members; ++from) {
        const uint32_t node = (from / together + apart) % nodes;
        for (uint32_t i = 0; i < together; ++i) {
          out.push_back({nic(from), nic(node * together + i)});
        }
      }
    }
    return out;
  }
  for (uint32_t channel = 0; channel < channels_of(plan, family); ++channel) {
    for (uint32_t node = 0; node < nodes; ++node) {
      // As Communicator::gpu_at() without other orders: a channel's chain begins with its own GPU.
      const uint32_t leaves = node * together + (channel + together - 1) % together;
      out.push_back({nic(leaves), nic((node + 1) % nodes * together + channel)});
    }
  }
  return out;
}

MessageWays::Way pair_way(const Config& config, const TrainingPlan& plan, const Topology& topology,
                          const TrainingFamily& family, uint32_t replica, uint32_t tensor) {
  return {nic_of(config, topology, plan.places.place(family.stage, replica, tensor)),
          nic_of(config, topology, plan.places.place(family.to, replica, tensor))};
}

uint64_t way_bytes(const TrainingPlan& plan, const TrainingFamily& family,
                   const FamilyOperation& operation) {
  if (operation.transfer == TrainingTransfer::kAllToAll) return operation.bytes / family.members;
  const TrainingMessage message{
      .transfer = operation.transfer, .what = {}, .bytes = static_cast<double>(operation.bytes)};
  const uint32_t channels = family.of_replicas() ? channels_of(plan, family) : 1;
  return static_cast<uint64_t>(std::llround(message.sent(family.members) / channels));
}

Duration steps_time(const Config& config, const TrainingPlan& plan, const Topology& topology,
                    Routes& routes, const MessageWays::Way& way, const TrainingFamily& family,
                    const FamilyOperation& operation) {
  const uint32_t channels = family.of_replicas() ? channels_of(plan, family) : 1;
  RingHops ring{family.members, channels, ring_steps(operation.transfer, family.members / channels),
                0};
  // Of one channel that passes by several GPUs of each node: what begins at a node's last one leaves all nodes.
  const uint32_t together = family.of_replicas() ? members_together(plan, family) : 1;
  if (family.kind == TrainingFamily::Kind::kContext && together > 1) {
    ring.steps = family.members / together;
  } else {
    ring.inside = ring_steps(operation.transfer, family.members) - ring.steps;
  }
  return steps_time(config, topology, routes, way, operation.transfer, operation.bytes, ring);
}

Duration norm_time(const Config& config, const TrainingPlan& plan, const Parallel& parallel,
                   const Topology& topology) {
  const GpuPlace first = plan.places.place(0, 0, 0);
  const GpuPlace last =
      plan.places.place(parallel.pp - 1, parallel.replicas() - 1, parallel.tp - 1);
  if (first.node == last.node) {
    const auto depth = static_cast<int64_t>(std::bit_width(parallel.gpus() - 1));
    return inside_time(config, TrainingTransfer::kSend, 4, 2) * (2 * depth);
  }
  const VertexId a = nic_of(config, topology, first);
  const VertexId b = nic_of(config, topology, {last.node, first.gpu});
  Routes routes = topology.routes(config.seed);
  Duration latency;
  for (const LinkId link : routes.path(a, b, flow_hash(a, b, 0))) {
    latency += topology.graph.link(link).latency;
  }
  const auto depth = static_cast<int64_t>(std::bit_width(last.node));
  return latency * (2 * depth);
}

}  // namespace understudy
