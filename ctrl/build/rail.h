// From the configuration to a shard: which nodes it knows, with which addresses and links.
#pragma once

#include <cstddef>
#include <vector>

#include "ctrl/config/config.h"
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

/// The ports that one shard has in `run`: of a NIC that a job merges all, else one.
std::vector<PortList> live_shards(const Config& config);

/// Which of `shards` has this port.
size_t shard_of(const std::vector<PortList>& shards, size_t port);

/// Which port of its shard each of `ports` is, the ports of the shard.
std::vector<uint32_t> port_numbers(const Config& config, const PortList& ports);

/// The shard behind these ports of the configuration: of one rail, or of all that share a network.
/// `host_mac`: of the exception port.
ShardConfig emulator_shard(const Config& config, const PortList& ports, const MacAddress& host_mac);

/// A reference node's own shard, at the other end of virtual links to its ports: one node, whose
/// NICs send at their links' rates; everything else is on the far side.
ShardConfig reference_shard(const Config& config, const PortList& ports);

}  // namespace understudy
