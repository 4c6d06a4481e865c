// NCCL's connections that no plan knows, in one shard: their queue pairs and memory.
#pragma once

#include <map>
#include <memory>

#include "ctrl/peers/peer.h"
#include "ctrl/shards/nccl_failover.h"
#include "ctrl/shards/nccl_queue_pair.h"
#include "ctrl/shards/shard_control.h"
#include "ctrl/topology/topology.h"
#include "dataplane/nccl/unplanned_connection.h"

namespace understudy {

class UnplannedLinks {
 public:
  struct Settings {
    NcclVersion version;
    CtsLayout layout;
    NcclBuffers buffers = {};
    const Topology* topology = nullptr;  ///< null without switches
    bool knows_neighbours = true;  ///< the shard finds real nodes' MACs, as the emulator's does
  };
  UnplannedLinks(const Config& config, ShardControl& control, const Settings& settings)
      : config_(config), control_(control), settings_(settings) {}
  ~UnplannedLinks();
  UnplannedLinks(const UnplannedLinks&) = delete;

  /// Makes, or sets aside, what a connection of `emulated` to `real` wants (Behaviour::kNccl).
  /// Their NICs are those with the addresses of the request's devices.
  Result<EndpointReady> create(const NodeConfig& emulated, const NodeConfig& real,
                               const EndpointRequest& request);
  /// Its sender has said that it is ready.
  void join(const NcclConnector& connector);
  void remove(const NcclConnector& connector);
  /// Whether the connection is one of these.
  bool has(const NcclConnector& connector) const { return links_.contains(connector); }

  using ByCommunicator = std::map<uint32_t, std::shared_ptr<UnplannedTraffic>>;
  /// Of all connections of the first communicator, those that are gone too; and of each, as
  /// connectors number them.
  const UnplannedTraffic& traffic() const { return *traffic_.at(0); }
  const ByCommunicator& all_traffic() const { return traffic_; }

 private:
  struct Link {
    Link(bool real_sends, std::shared_ptr<UnplannedTraffic> of)
        : traffic(std::move(of)), connection(real_sends, *traffic) {}
    /// Lives as long as the shard has the link.
    const std::shared_ptr<UnplannedTraffic> traffic;
    UnplannedConnection connection;
    EndpointReady end;
    ExposedRegion region;
    std::unique_ptr<uint8_t[]> staging;
    FailoverEnd further;
    ExposedRegion records;  ///< of a receiver with port failover
    std::unique_ptr<PortFailover> failover;
    /// Queue pairs that are not the connection's own.
    std::vector<Qpn> further_queue_pairs() const {
      std::vector<Qpn> all = further.probing;
      all.insert(all.end(), further.recovery.begin(), further.recovery.end());
      return all;
    }
    bool made = false;  ///< its queue pairs are
  };
  Result<Link*> reserve(NodeId node, const EndpointRequest& request);
  void connect(Link& link, const NodeConfig& emulated, const NodeConfig& real,
               const EndpointRequest& request);

  void add_failover_of(Link& link, const NodeConfig& emulated, const NodeConfig& real,
                       const EndpointRequest& request, std::vector<Qp*> data);
  const PortConfig& port_to(const NcclNic& real) const;

  const Config& config_;
  ShardControl& control_;
  const Settings settings_;
  ByCommunicator traffic_ = {{0, std::make_shared<UnplannedTraffic>()}};
  std::map<NcclConnector, std::shared_ptr<Link>> links_;
};

}  // namespace understudy
