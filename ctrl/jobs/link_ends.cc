#include "ctrl/jobs/link_ends.h"

#include <numeric>

#include "collective_model/nccl/p2p_rounds.h"
#include "ctrl/compile/qp_control.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/config/port_of.h"

namespace understudy {

LinkRoom room_of(const CollectiveJob& job, uint32_t link, const CtsLayout& layout, bool told) {
  LinkRoom room{.layout = layout};
  if (!told) return room;
  uint64_t messages = 0;
  for (size_t o = 0; o < job.operations.size() && messages < room.send_queue; ++o) {
    messages += job.messages(o, link);
  }
  room.send_queue = static_cast<uint32_t>(std::clamp<uint64_t>(messages, 1, room.send_queue));
  room.credits = std::min(room.send_queue + 1, room.credits);
  return room;
}

LinkFarEnd told_far_end(const NodeConfig& here, const NodeConfig& there,
                        const EndpointRequest& request) {
  const NcclLinkRequest& told = *request.nccl;
  LinkFarEnd far;
  far.qpns = told.remote_qpns;
  far.split = told.split;
  far.parts = told.parts;
  for (const IpAddress& local : told.local) far.devices.near.push_back(nic_with(here, local));
  for (size_t d = 0; d < told.devices.size(); ++d) {
    const auto& [gid, rkey] = told.devices[d];
    far.devices.far.push_back(nic_with(there, gid));
    far.fifo_rkey[d] = rkey;
  }
  far.devices.far_of = told.remote_device;
  far.fifo_va = told.fifo_address;
  if (told.failover) {
    far.failover.probing = told.failover->remote_probing;
    far.failover.recovery = told.failover->remote_recovery;
  }
  far.tag = told.connector.sender;
  far.checked = true;
  far.mtu = request.mtu;
  far.traffic_class = request.sender.traffic_class;
  return far;
}

EndpointReady told_near_end(const LinkNearEnd& ours, bool receives) {
  EndpointReady ready{ours.qpns.front(), Psn(0), ours.va, ours.rkey, ours.qpns};
  if (!ours.failover.exists()) return ready;
  ready.probing = ours.failover.probing;
  ready.recovery = ours.failover.recovery;
  if (receives) {
    ready.address = ours.failover.records_va;
    ready.rkey = ours.failover.records_rkey;
  }
  return ready;
}

FailoverLink failover_link(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                           const CollectiveConnection& link, const LinkFarEnd& far, bool of_real,
                           const FailoverSettings& settings) {
  const auto nics = [](const std::vector<uint32_t>& all, uint32_t otherwise) {
    return all.empty() ? std::vector<uint32_t>{otherwise} : all;
  };
  const LinkDevices& d = far.devices;
  return {.config = config,
          .version = job.nccl,
          .settings = settings,
          .sends = link.real_sends == of_real,
          .near = node_of(config, job, setup, of_real ? link.real : link.far),
          .far = node_of(config, job, setup, of_real ? link.far : link.real),
          .near_nics = nics(d.near, of_real ? link.real_nic : link.far_nic),
          .far_nics = nics(d.far, of_real ? link.far_nic : link.real_nic),
          .theirs = far.failover,
          .records_va = far.fifo_va,
          .records_rkey = far.fifo_rkey,
          .mtu = far.mtu,
          .traffic_class = far.traffic_class,
          .knows_neighbours = !of_real};
}

std::optional<uint32_t> find_link(const CollectiveSetup& setup, const NcclConnector& c) {
  uint32_t channel = c.channel;
  if (c.index == 1) {
    const auto all = p2p_channels_between(setup.communicator, c.real_sends ? c.real : c.emulated,
                                          c.real_sends ? c.emulated : c.real);
    if (channel >= all.size()) return std::nullopt;
    channel = all[channel];
  }
  const std::vector<CollectiveConnection>& links = setup.job.links;
  for (uint32_t l = 0; l < links.size(); ++l) {
    const CollectiveConnection& link = links[l];
    if (link.real != c.real || link.far != c.emulated) continue;
    if (link.channel == channel && link.index == c.index && link.real_sends == c.real_sends) {
      return l;
    }
  }
  return std::nullopt;
}

uint64_t buffer_bytes(const CollectiveConnection& link, uint32_t slots) {
  return std::max<uint64_t>(uint64_t{slots} * link.slot_bytes, 1);
}

const NodeConfig& node_of(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                          uint32_t rank) {
  return config.nodes[job.ranks[setup.communicator.node_of(rank)]];
}

size_t port_of_rank(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                    uint32_t rank) {
  const Communicator& c = setup.communicator;
  return *port_of(config, job.ranks[c.node_of(rank)], c.nic_of(rank));
}

LinkDevices LinkDevices::seen_from_far(size_t queue_pairs) const {
  LinkDevices seen{.near = far, .far = near, .far_of = {}};
  for (size_t q = 0; q < queue_pairs; ++q) {
    seen.far_of.push_back(static_cast<uint8_t>(q % near.size()));
  }
  return seen;
}

LinkDevices link_devices(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                         const CollectiveConnection& link, size_t queue_pairs) {
  const auto nics = [&](uint32_t rank, uint32_t first) {
    std::vector<uint32_t> out(merged_nics(job, node_of(config, job, setup, rank), first));
    std::iota(out.begin(), out.end(), first);
    return out;
  };
  LinkDevices devices{nics(link.real, link.real_nic), nics(link.far, link.far_nic), {}};
  if (queue_pairs == 0) queue_pairs = devices.most();
  for (size_t q = 0; q < queue_pairs; ++q) {
    devices.far_of.push_back(static_cast<uint8_t>(q % devices.far.size()));
  }
  return devices;
}

NcclBuffers buffers_of(const CollectiveSetup& setup) {
  const BufferSizes& b = setup.communicator.buffers;
  return {.simple = b.simple, .ll = b.ll, .ll128 = b.ll128};
}

QpConfig link_queue_pair(const Config& config, NcclVersion version, const NcclNic& from,
                         const NcclNic& to, Qpn qpn, Qpn remote, const LinkFarEnd& far,
                         bool credits) {
  QpConfig qp =
      nccl_queue_pair(config, version, from, to, qpn, remote, far.mtu, far.traffic_class, credits);
  qp.rq_psn = far.psn;
  qp.sq_psn = far.expects;
  return qp;
}

std::unique_ptr<QpControl> data_control(const Config& config, const JobConfig& job,
                                        const CollectiveSetup& setup,
                                        const CollectiveConnection& link, uint32_t real_nic,
                                        uint32_t far_nic, uint32_t mtu) {
  const NodeConfig& real = node_of(config, job, setup, link.real);
  const auto port = std::ranges::find_if(
      config.ports, [&](const PortConfig& p) { return p.node == real.index && p.nic == real_nic; });
  if (port == config.ports.end()) return nullptr;
  return make_qp_control(config, setup.topology, job.sender,
                         node_of(config, job, setup, link.far).index, far_nic, *port, mtu,
                         link.real_sends);
}

std::string queue_pair_name(const Config& config, const JobConfig& job,
                            const CollectiveSetup& setup, const CollectiveConnection& link,
                            size_t q) {
  const auto end = [&](uint32_t rank) {
    const std::string& node = node_of(config, job, setup, rank).name;
    if (setup.communicator.gpus == 1) return node;
    return node + "/gpu" + std::to_string(setup.communicator.gpu_of(rank));
  };
  const uint32_t from = link.real_sends ? link.real : link.far;
  const uint32_t to = link.real_sends ? link.far : link.real;
  return job.name + " " + end(from) + " -> " + end(to) + " " + std::to_string(link.channel) +
         (link.index == 0 ? "" : " send/recv") +
         (q == 0 ? "" : ", queue pair " + std::to_string(q));
}

std::vector<std::string> controlled_names(const Config& config, const JobConfig& job,
                                          const CollectiveSetup& setup) {
  if (job.sender.control == kNoControl) return {};
  std::vector<std::string> names;
  for (const CollectiveConnection& link : setup.job.links) {
    if (link.among_real() && !link.real_sends) continue;  // its other end sends
    names.push_back(queue_pair_name(config, job, setup, link, 0));
  }
  return names;
}

}  // namespace understudy
