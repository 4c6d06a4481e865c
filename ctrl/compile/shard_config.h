// From the configuration to a shard: which nodes it knows, with which addresses and links.
#pragma once

#include <cstddef>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/engine/shard.h"

namespace understudy {

/// The address family that RoCE traffic of a NIC uses: IPv4 where it has one.
IpAddress roce_address(const NicConfig& nic);

/// VLAN tag of a NIC's traffic, if its rail has one.
std::optional<uint16_t> vlan_tci(const NicConfig& nic);

/// Link and network layer of packets from one NIC to another. The destination MAC stays unset when
/// the shard is to fill in what it learned, the UDP source port when the caller does not set it.
RoceAddressing addressing(const NicConfig& from, const NicConfig& to, uint8_t traffic_class);

/// UDP source port of a queue pair, 0xC000 to 0xFFFF, as the configuration chooses it (rule A1.4).
uint16_t udp_source_port(const Config& config, Qpn local_qpn, Qpn remote_qpn);

/// Positions in Config::ports.
using PortList = std::vector<size_t>;

/// The ports of each shard of `run`, in the order that they have in it. Ports share one if packets
/// behind them can meet on a link or belong to one job: all in a network of switches (`switched`),
/// else those of a rail and those of the rails that a job uses together.
std::vector<PortList> live_shards(const Config& config, bool switched);

/// Which port of its shard each of `ports` is, the ports of the shard.
std::vector<uint32_t> port_numbers(const Config& config, const PortList& ports);

/// What the switches of a network do. They write telemetry where some [[traffic]] is under HPCC:
/// other senders cannot be (read_sender.cc).
NetworkSettings network_settings(const Config& config);

/// The shard behind these ports of the configuration: of one rail, or of all that share a network,
/// `topology`; null: there is none. `host_mac`: of the exception port.
ShardConfig emulator_shard(const Config& config, const PortList& ports, const MacAddress& host_mac,
                           const Topology* topology = nullptr);

/// A reference node's own shard, at the other end of virtual links to its ports: one node, whose
/// NICs send at their links' rates; everything else is on the far side.
ShardConfig reference_shard(const Config& config, const PortList& ports);

}  // namespace understudy
