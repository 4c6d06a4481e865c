#include "ctrl/jobs/node_job.h"

#include <utility>

#include "ctrl/compile/shard_config.h"
#include "ctrl/jobs/link_ends.h"
#include "ctrl/jobs/ranks_host.h"
#include "ctrl/schedule/job_work.h"

namespace understudy {

std::shared_ptr<const NodeJobMessage> node_job(const Config& config, const JobConfig& job,
                                               const CollectiveSetup& setup, uint32_t node,
                                               std::vector<uint32_t> programs) {
  auto made = std::make_shared<NodeJobMessage>();
  made->name = job.name;
  made->communicator = setup.communicator;
  made->node = node;
  for (size_t i = 0; i < setup.sizes.size(); ++i) {
    made->kinds.push_back({setup.sizes[i], setup.kinds[i]});
  }
  made->warmup = job.warmup;
  made->iterations = job.iterations;
  made->by_iteration = job.iteration.whole;
  made->reduction = job.reduction;
  made->exact = setup.job.exact;
  made->seed = setup.job.seed;
  made->program_ranks = std::move(programs);
  for (const CollectiveConnection& link : setup.job.links) {
    if (setup.communicator.node_of(link.real) != node) continue;
    const LinkDevices devices = link_devices(config, job, setup, link);
    std::vector<IpAddress> local, remote;
    for (size_t q = 0; q < devices.most(); ++q) {
      const auto address = [&](uint32_t rank, uint32_t nic) {
        return roce_address(node_of(config, job, setup, rank).nics[nic]);
      };
      local.push_back(address(link.real, devices.near_nic(q, link.real_nic)));
      remote.push_back(address(link.far, devices.far_nic(q, link.far_nic)));
    }
    made->links.push_back({.rank = link.real,
                           .peer_rank = link.far,
                           .channel = link.channel,
                           .index = link.index,
                           .client_sends = link.real_sends,
                           .slots = link.slots,
                           .slot_bytes = link.slot_bytes,
                           .local = std::move(local),
                           .remote = std::move(remote)});
  }
  made->credit_devices = static_cast<uint32_t>(NcclWire::alone(job).layout.devices());
  if (setup.job.inside) {
    made->inside_rate = setup.job.inside->rate;
    made->inside_latency = setup.job.inside->latency;
  }
  const JobWork work(config, job, setup.communicator.gpus);
  RankSteps steps = repeated_steps(work.rank(node * setup.communicator.gpus));
  if (steps.first.size() <= kMostToldSteps) made->steps = std::move(steps);
  made->mtu = config.fabric.mtu;
  made->traffic_class = job.sender.traffic_class;
  return made;
}

}  // namespace understudy
