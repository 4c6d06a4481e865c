#include "ctrl/compile/shard_config.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>
#include <variant>

#include "collective_model/schedule/simple_all_reduce.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

NodeNic node_nic(const NodeConfig& node, unsigned nic, bool real) {
  const NicConfig& n = node.nics[nic];
  return {node.index, real, n.mac, n.v4, n.v6, vlan_tci(n), !real, nic};
}

/// Slots for everything that can be on its way at once: the window of each channel of the jobs on
/// this rail, twice over, and some thousands for clients whose windows are their own.
uint32_t packet_slots(const Config& config) {
  constexpr uint32_t kForClients = 8192;
  uint64_t window = 0;
  for (const JobConfig& job : config.jobs) {
    window += uint64_t{job.channels} * RingSchedule::kWindow *
              (RingSchedule::kMessageBytes / config.fabric.mtu + 2);
  }
  return static_cast<uint32_t>(std::min<uint64_t>(kForClients + 2 * window, 1u << 18));
}

NotificationSettings notification(const CnpConfig& cnp) {
  return {cnp.on, cnp.interval, static_cast<uint8_t>(cnp.dscp << 2), cnp.pcp};
}

/// Quanta are counted by the wire's rate; a wire without one is as fast as the modelled link.
PortPfcSettings port_pfc(const PortConfig& port, const NicConfig& nic) {
  return {port.pfc, port.physical.is_unlimited() ? nic.link_rate : port.physical};
}

/// What a reference node that obeys PFC has around it: a cable from each NIC to whoever is at the
/// other end.
std::shared_ptr<const SwitchedNetwork> cables(const Config& config, const NodeConfig& node,
                                              const std::vector<const PortConfig*>& ports,
                                              uint32_t packets) {
  auto network = std::make_shared<SwitchedNetwork>();
  for (const PortConfig* port : ports) {
    const VertexId own = network->graph.add_vertex({VertexKind::kNic, "reference node"});
    const VertexId far = network->graph.add_vertex({VertexKind::kNic, "emulator"});
    network->graph.connect(own, far, node.nics[port->nic].link_rate, Duration());
    network->nics.insert(network->nics.end(), {own, far});
  }
  network->settings = config.queues.network;
  network->settings.watchdog.reset();  // there is no switch
  network->packets = packets;
  return network;
}

/// The network of a shard, whose nodes are there already.
std::shared_ptr<const SwitchedNetwork> switched(const Config& config, const Topology& topology,
                                                const ShardConfig& shard) {
  auto network = std::make_shared<SwitchedNetwork>();
  network->graph = topology.graph;
  network->settings = network_settings(config);
  network->choice = topology.choice;
  network->static_routes = topology.static_routes;
  network->seed = config.seed;
  network->packets = shard.packets;
  for (const NodeNic& nic : shard.nodes.nics()) {
    network->nics.push_back(topology.nics[nic.id][nic.nic]);
  }
  for (NodeId node = 0; node < config.nodes.size(); ++node) {
    network->cables.push_back(topology.cables(node));
  }
  return network;
}

/// In the order that the ports of their shard have.
std::vector<const PortConfig*> sorted(const Config& config, const PortList& ports) {
  std::vector<const PortConfig*> out;
  for (const size_t port : ports) out.push_back(&config.ports[port]);
  std::ranges::sort(out, {}, [](const PortConfig* p) { return std::pair(p->node, p->nic); });
  return out;
}

/// Whether a rank of the job has this NIC.
bool uses(const Config& config, const JobConfig& job, const PortConfig& port) {
  if (std::ranges::count(job.ranks, port.node) == 0) return false;
  const Communicator c = job_communicator(config, job);
  return c.has_nic(port.nic);
}

/// Without switches: real nodes of one rail reach each other and the same emulated ones, and a job
/// may use several rails.
bool share_links(const Config& config, const PortConfig& a, const PortConfig& b) {
  if (a.nic == b.nic) return true;
  return std::ranges::any_of(config.jobs, [&](const JobConfig& job) {
    return uses(config, job, a) && uses(config, job, b);
  });
}

}  // namespace

IpAddress roce_address(const NicConfig& nic) {
  return nic.v4 ? *nic.v4 : nic.v6.value_or(IpAddress());
}

std::optional<uint16_t> vlan_tci(const NicConfig& nic) {
  if (!nic.vlan) return std::nullopt;
  return static_cast<uint16_t>(nic.pcp << 13 | *nic.vlan);
}

uint16_t udp_source_port(const Config& config, Qpn local_qpn, Qpn remote_qpn) {
  constexpr uint16_t kFirst = 0xc000;
  switch (config.fabric.udp_source_port) {
    case UdpSourcePort::kFixed:
      break;
    case UdpSourcePort::kRandom: {
      const uint64_t pair = uint64_t{local_qpn} << 24 | remote_qpn;
      return static_cast<uint16_t>(kFirst | (splitmix64(splitmix64(config.seed) ^ pair) & 0x3fff));
    }
    case UdpSourcePort::kLinux: {
      const uint64_t product = uint64_t{local_qpn} * remote_qpn;
      const auto flow = static_cast<uint32_t>((product ^ product >> 20 ^ product >> 40) & 0xfffff);
      return static_cast<uint16_t>(((flow & 0x3fff) ^ (flow >> 14)) | kFirst);
    }
  }
  return kFirst;
}

RoceAddressing addressing(const NicConfig& from, const NicConfig& to, uint8_t traffic_class) {
  RoceAddressing a;
  a.src_mac = from.mac;
  a.vlan_tci = vlan_tci(from);
  a.src = roce_address(from);
  a.dst = roce_address(to);
  a.traffic_class = traffic_class;
  return a;
}

std::vector<PortList> live_shards(const Config& config, bool switched) {
  std::vector<PortList> shards;
  for (size_t port = 0; port < config.ports.size(); ++port) {
    PortList own{port};
    for (auto other = shards.begin(); other != shards.end();) {
      const bool joins = switched || std::ranges::any_of(*other, [&](size_t p) {
                           return share_links(config, config.ports[p], config.ports[port]);
                         });
      if (joins) own.insert(own.begin(), other->begin(), other->end());
      other = joins ? shards.erase(other) : std::next(other);
    }
    std::ranges::sort(
        own, {}, [&](size_t p) { return std::pair(config.ports[p].node, config.ports[p].nic); });
    shards.push_back(std::move(own));
  }
  return shards;
}

std::vector<uint32_t> port_numbers(const Config& config, const PortList& ports) {
  const std::vector<const PortConfig*> order = sorted(config, ports);
  std::vector<uint32_t> numbers;
  for (const size_t port : ports) {
    const auto at = std::ranges::find(order, &config.ports[port]);
    numbers.push_back(static_cast<uint32_t>(at - order.begin()));
  }
  return numbers;
}

NetworkSettings network_settings(const Config& config) {
  NetworkSettings settings = config.queues.network;
  settings.seed = config.seed;
  if (config.topology) settings.reconverge = config.topology->reconverge;
  settings.telemetry = std::ranges::any_of(config.traffic, [&](const TrafficConfig& traffic) {
    return traffic.control != kNoControl &&
           std::holds_alternative<HpccParameters>(config.controls[traffic.control].parameters);
  });
  return settings;
}

ShardConfig emulator_shard(const Config& config, const PortList& ports, const MacAddress& host_mac,
                           const Topology* topology) {
  ShardConfig s;
  s.index = static_cast<uint32_t>(ports.front());
  s.pacing = config.fabric.pacing;
  s.separate_control = config.fabric.control_class == ControlClass::kSeparate;
  s.icmp_through_fabric = config.fabric.icmp_through;
  s.verify = config.fidelity.verify_icrc == IcrcVerify::kFull      ? VerifyIcrc::kFull
             : config.fidelity.verify_icrc == IcrcVerify::kSampled ? VerifyIcrc::kSampled
                                                                   : VerifyIcrc::kOff;
  s.cnp = notification(config.fabric.cnp);
  s.control_users = static_cast<uint32_t>(config.control_users.size());
  s.host_mac = host_mac;
  for (const FaultConfig& fault : config.faults) s.faults.push_back(fault.fault);
  s.fault_seed = splitmix64(config.seed) ^ s.index;
  s.packets = config.limits.packets.value_or(packet_slots(config));
  s.queue_pairs = config.limits.queue_pairs;
  s.regions = config.limits.regions;
  s.wires.clear();
  std::set<unsigned> rails;
  std::set<std::pair<NodeId, unsigned>> real;
  for (const PortConfig* port : sorted(config, ports)) {
    rails.insert(port->nic);
    real.insert({port->node, port->nic});
    s.wires.push_back({port->physical, port_pfc(*port, config.nodes[port->node].nics[port->nic])});
  }
  // NICs of emulated nodes that belong to one of these for NCCL.
  for (const JobConfig& job : config.jobs) {
    const Communicator c = job_communicator(config, job);
    if (job.merged_nics == 1 || !rails.contains(c.first_nic)) continue;
    for (uint32_t k = 0; k < c.nics; ++k) {
      for (uint32_t port = 0; port < c.ports; ++port) rails.insert(c.nic_at(k) + port);
    }
  }
  for (const NodeConfig& node : config.nodes) {
    for (const unsigned nic : rails) {
      const bool is_real_end = real.contains({node.index, nic});
      if (node.nics.size() <= nic || (node.real && !is_real_end)) continue;
      NodeNic added = node_nic(node, nic, is_real_end);
      added.host_speaks = is_real_end && is_reference_beside_kernels(config, node.index);
      s.nodes.add(added);
      s.rates.push_back(node.nics[nic].link_rate);
      s.latencies.push_back(node.nics[nic].link_latency);
      s.limits.push_back(node.nics[nic].limits);
    }
  }
  if (std::ranges::none_of(s.limits, &NicLimits::any)) s.limits.clear();
  if (topology != nullptr) s.network = switched(config, *topology, s);
  return s;
}

ShardConfig reference_shard(const Config& config, const PortList& ports) {
  const std::vector<const PortConfig*> order = sorted(config, ports);
  const NodeConfig& node = config.nodes[order.front()->node];
  ShardConfig s;
  // Its QPNs are its own: the emulator's shards and it never share a table.
  s.index = static_cast<uint32_t>(ports.front());
  s.pacing = config.fabric.pacing;
  s.separate_control = config.fabric.control_class == ControlClass::kSeparate;
  s.cnp = notification(config.fabric.cnp);
  s.control_users = static_cast<uint32_t>(config.control_users.size());
  s.packets = packet_slots(config);
  s.queue_pairs = config.limits.queue_pairs;
  s.regions = config.limits.regions;
  s.wires.clear();
  bool pfc = false;
  for (const PortConfig* port : order) {
    const NicConfig& nic = node.nics[port->nic];
    // A NIC hands a packet to the wire as it starts to serialise it; the emulator's queue is the
    // wire.
    s.wires.push_back({config.fabric.pacing ? nic.link_rate : Rate::unlimited(), {}});
    if (port->pfc) s.wires.back().pfc = port_pfc(*port, nic);
    pfc = pfc || port->pfc;
    s.nodes.add(node_nic(node, port->nic, false));
    s.rates.push_back(nic.link_rate);
    s.latencies.push_back(Duration());
    s.limits.push_back(nic.limits);
    NodeNic far;
    far.id = kNoNode - 1;
    far.real = true;
    far.vlan_tci = vlan_tci(nic);
    far.nic = port->nic;
    s.nodes.add(far);
    s.rates.push_back(Rate::unlimited());
    s.latencies.push_back(Duration());
    s.limits.emplace_back();
  }
  if (std::ranges::none_of(s.limits, &NicLimits::any)) s.limits.clear();
  if (pfc) s.network = cables(config, node, order, s.packets);
  return s;
}

}  // namespace understudy
