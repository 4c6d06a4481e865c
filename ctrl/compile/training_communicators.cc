#include "ctrl/compile/training_communicators.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/assert.h"

namespace understudy {
uint32_t nic_number(const Config& config, const GpuPlace& at) {
  const NodeConfig& node = config.nodes[at.node];
  return static_cast<uint32_t>(at.gpu * node.nics.size() / node.gpus);
}

bool crosses_network(const TrainingPlan& plan, const Parallel& parallel,
                     const TrainingFamily& family) {
  switch (family.kind) {
    case TrainingFamily::Kind::kData:
      return parallel.dp > plan.places.together();
    case TrainingFamily::Kind::kMessages:
    case TrainingFamily::Kind::kEnds:
      return !plan.places.one_node(family.stage, 0, family.to, 0);
    case TrainingFamily::Kind::kNorm:
      break;
  }
  return false;
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

JobConfig replicas_job(const Config& config, const TrainingPlan& plan, uint32_t stage,
                       uint32_t tensor, Collective collective, std::vector<uint64_t> sizes) {
  const Parallel& parallel = config.training->parallel;
  JobConfig job;
  job.name = "model";
  job.collective = collective;
  job.type = collective == Collective::kAllGather || parallel.gradient_bytes == 2
                 ? DataType::kBfloat16
                 : DataType::kFloat32;
  const uint32_t together = plan.places.together();
  for (uint32_t replica = 0; replica < parallel.dp; replica += together) {
    job.ranks.push_back(plan.places.node(stage, replica));
  }
  job.gpus = together;
  job.channels = together;
  const GpuPlace first = plan.places.place(stage, 0, tensor);
  job.nic = nic_number(config, first);
  if (together > 1) {
    ChildConfig child;
    const GpuPlace last = plan.places.place(stage, together - 1, tensor);
    const uint32_t apart = nic_number(config, last) - job.nic;
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

VertexId nic_of(const Config& config, const Topology& topology, const GpuPlace& gpu) {
  return topology.nics[gpu.node][nic_number(config, gpu)];
}

std::vector<MessageWays::Way> ring_ways(const Config& config, const TrainingPlan& plan,
                                        const Topology& topology, uint32_t stage, uint32_t tensor) {
  const Parallel& parallel = config.training->parallel;
  const uint32_t together = plan.places.together(), nodes = parallel.dp / together;
  std::vector<MessageWays::Way> out;
  for (uint32_t channel = 0; channel < together; ++channel) {
    for (uint32_t node = 0; node < nodes; ++node) {
      // As Communicator::gpu_at() without other orders: a channel's chain begins with its own GPU.
      const uint32_t leaves = node * together + (channel + together - 1) % together;
      const uint32_t enters = (node + 1) % nodes * together + channel;
      out.push_back({nic_of(config, topology, plan.places.place(stage, leaves, tensor)),
                     nic_of(config, topology, plan.places.place(stage, enters, tensor))});
    }
  }
  return out;
}

MessageWays::Way pair_way(const Config& config, const TrainingPlan& plan, const Topology& topology,
                          const TrainingFamily& family, uint32_t replica, uint32_t tensor) {
  return {nic_of(config, topology, plan.places.place(family.stage, replica, tensor)),
          nic_of(config, topology, plan.places.place(family.to, replica, tensor))};
}

uint64_t ring_bytes(const FamilyOperation& operation, uint32_t ranks, size_t channels) {
  const TrainingMessage message{
      .transfer = operation.transfer, .what = {}, .bytes = static_cast<double>(operation.bytes)};
  return static_cast<uint64_t>(std::llround(message.sent(ranks) / static_cast<double>(channels)));
}

Duration steps_time(const Config& config, const Topology& topology, const MessageWays::Way& way,
                    const FamilyOperation& operation, uint32_t ranks) {
  // NCCL's Simple protocol passes a message on in slices: two of a small one, of at most a quarter of a MiB.
  constexpr uint64_t kSlice = uint64_t{256} * 1024;
  if (operation.transfer == TrainingTransfer::kSend || ranks < 2) return Duration();
  const bool twice = operation.transfer == TrainingTransfer::kAllReduce;
  const int64_t steps = (twice ? 2 : 1) * (int64_t{ranks} - 1);
  Routes routes = topology.routes(config.seed);
  const auto path = routes.path(way.from, way.to, flow_hash(way.from, way.to, 0));
  Duration latency;
  for (const LinkId link : path) latency += topology.graph.link(link).latency;
  const uint64_t message = operation.bytes / ranks;
  const uint64_t behind = message - std::min(kSlice, message / 2);
  const Duration covered = topology.graph.link(path.front()).rate.time_for(behind);
  // The first messages wait for their credits.
  return latency + (latency - std::min(latency, covered)) * (steps - 1);
}

Duration norm_time(const Config& config, const TrainingPlan& plan, const Parallel& parallel,
                   const Topology& topology) {
  const GpuPlace first = plan.places.place(0, 0, 0);
  const GpuPlace last = plan.places.place(parallel.pp - 1, parallel.dp - 1, parallel.tp - 1);
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
