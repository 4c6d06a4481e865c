#include "ctrl/build/rail.h"

#include <algorithm>

#include "collective_model/ring_schedule.h"
#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

NodeNic node_nic(const NodeConfig& node, unsigned nic, bool real) {
  const NicConfig& n = node.nics[nic];
  return {node.index, real, n.mac, n.v4, n.v6, vlan_tci(n), !real};
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

/// What a reference node that obeys PFC has around it: a cable to whoever is at the other end.
std::shared_ptr<const SwitchedNetwork> one_cable(const Config& config, const NicConfig& nic,
                                                 uint32_t packets) {
  auto network = std::make_shared<SwitchedNetwork>();
  const VertexId own = network->graph.add_vertex({VertexKind::kNic, "reference node"});
  const VertexId far = network->graph.add_vertex({VertexKind::kNic, "emulator"});
  network->graph.connect(own, far, nic.link_rate, Duration());
  network->settings = config.queues.network;
  network->nics = {own, far};
  network->packets = packets;
  return network;
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

ShardConfig emulator_shard(const Config& config, size_t index, const MacAddress& host_mac) {
  const PortConfig& port = config.ports[index];
  ShardConfig s;
  s.index = static_cast<uint32_t>(index);
  s.physical = port.physical;
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
  s.fault_seed = splitmix64(config.seed) ^ index;
  s.packets = config.limits.packets.value_or(packet_slots(config));
  s.queue_pairs = config.limits.queue_pairs;
  s.regions = config.limits.regions;
  s.pfc = port_pfc(port, config.nodes[port.node].nics[port.nic]);
  for (const NodeConfig& node : config.nodes) {
    const bool is_real_end = node.index == port.node;
    if (node.nics.size() <= port.nic || (node.real && !is_real_end)) continue;
    s.nodes.add(node_nic(node, port.nic, is_real_end));
    s.rates.push_back(node.nics[port.nic].link_rate);
    s.latencies.push_back(node.nics[port.nic].link_latency);
  }
  return s;
}

ShardConfig reference_shard(const Config& config, size_t index) {
  const PortConfig& port = config.ports[index];
  const NodeConfig& node = config.nodes[port.node];
  const NicConfig& nic = node.nics[port.nic];
  ShardConfig s;
  // Its QPNs are its own: the emulator's shards and it never share a table.
  s.index = static_cast<uint32_t>(index);
  // A NIC hands a packet to the wire as it starts to serialise it; the emulator's queue is the
  // wire.
  s.physical = config.fabric.pacing ? nic.link_rate : Rate::unlimited();
  s.pacing = config.fabric.pacing;
  s.separate_control = config.fabric.control_class == ControlClass::kSeparate;
  s.cnp = notification(config.fabric.cnp);
  s.control_users = static_cast<uint32_t>(config.control_users.size());
  s.packets = packet_slots(config);
  s.nodes.add(node_nic(node, port.nic, false));
  s.rates.push_back(nic.link_rate);
  s.latencies.push_back(Duration());
  NodeNic far;
  far.id = kNoNode - 1;
  far.real = true;
  far.vlan_tci = vlan_tci(nic);
  s.nodes.add(far);
  s.rates.push_back(Rate::unlimited());
  s.latencies.push_back(Duration());
  if (port.pfc) {
    s.pfc = port_pfc(port, nic);
    s.network = one_cable(config, nic, s.packets);
  }
  return s;
}

}  // namespace understudy
