// The further queue pairs of a connection whose ends have NCCL's port failover on
// (docs/nccl 3.15), and the memory in which its receiver says what has come.
#pragma once

#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/shards/shard_control.h"
#include "dataplane/nccl/port_failover.h"

namespace understudy {

/// What an end with port failover has more: numbers of further queue pairs, and of a receiver the
/// memory that the sender looks up what has come in. Without: nothing.
struct FailoverEnd {
  std::vector<Qpn> probing, recovery;
  uint64_t records_va = 0;
  Rkey records_rkey = 0;
  bool exists() const { return !probing.empty(); }
};

/// How many an end has, of these and those devices (source: p2p_resiliency.cc,
/// ncclIbResiliencyDeviceNumSet).
struct FailoverCounts {
  size_t probing = 0, recovery = 0;
};
FailoverCounts failover_counts(const FailoverSettings& settings, bool sends, size_t near,
                               size_t far);

/// Takes numbers, and of a receiver (`sends` false) memory of `node`, which `records` is then.
/// False: there are not so many.
bool take_failover(ShardControl& control, NodeId node, bool sends, const FailoverCounts& counts,
                   FailoverEnd& end, ExposedRegion& records);
/// Gives back what nothing was made from.
void return_failover(ShardControl& control, const FailoverEnd& end, const ExposedRegion& records);

/// One end of a connection.
struct FailoverLink {
  const Config& config;
  NcclVersion version;
  FailoverSettings settings;
  bool sends = false;
  const NodeConfig& near;
  const NodeConfig& far;
  std::vector<uint32_t> near_nics, far_nics;  ///< their devices, in these nodes
  FailoverEnd theirs;                         ///< queue pairs
  uint64_t records_va = 0;                    ///< of a far receiver ...
  DeviceRkeys records_rkey;                   ///< ... by its devices
  uint32_t mtu = 4096;
  uint8_t traffic_class = 0;
  bool knows_neighbours = true;  ///< its shard finds MACs
};

/// Makes the queue pairs of `ours`. `data`: of the connection, `endpoint` theirs. `failover` and
/// `counters` outlive them.
void add_failover(ShardControl& control, const FailoverLink& link, const FailoverEnd& ours,
                  std::vector<Qp*> data, Endpoint& endpoint, FailoverCounters& counters,
                  PortFailover& failover);

}  // namespace understudy
