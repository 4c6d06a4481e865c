// What a shard is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/base/nic_limits.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/state/notification.h"
#include "dataplane/engine/state/port_pfc.h"
#include "dataplane/engine/state/switched_fabric.h"
#include "dataplane/fabric/faults.h"
#include "dataplane/node/node_table.h"
#include "dataplane/wire/parse.h"

namespace understudy {

enum class VerifyIcrc : uint8_t { kFull, kSampled, kOff };

/// Between a port and its real NIC.
struct ShardWire {
  Rate physical;        ///< a modelled rate at or above it is the wire's own
  PortPfcSettings pfc;  ///< on only with a network
};

struct ShardConfig {
  uint32_t index = 0;       ///< goes into the local QPNs
  NodeTable nodes;          ///< at least one real
  std::vector<Rate> rates;  ///< of each node's link, by position in `nodes`
  std::vector<Duration> latencies;
  std::vector<NicLimits> limits;    ///< the same; empty: all NICs are ideal
  std::vector<ShardWire> wires{1};  ///< of the ports: the real NICs of `nodes` in their order
  bool pacing = true;               ///< false: links take no time
  bool separate_control = false;    ///< ACKs and credits in a class that takes no data rate
  bool icmp_through_fabric = false;
  VerifyIcrc verify = VerifyIcrc::kFull;
  NotificationSettings cnp;
  MacAddress host_mac;         ///< MAC of the exception port's TAP
  uint32_t control_users = 0;  ///< of congestion control: QpControl::user() is less
  /// Between the nodes' links; null: nothing, then a path is the two links of its ends. Its graph
  /// has rates and latencies of its own.
  std::shared_ptr<const SwitchedNetwork> network;
  NetworkTraffic* background = nullptr;  ///< what else is in it; outlives the shard
  std::vector<Fault> faults;
  uint64_t fault_seed = 0;
  uint32_t packets = 8192;  ///< pool size
  uint32_t queue_pairs = 4096;
  uint32_t regions = 4096;

  /// Class of the link that ACKs and CNPs take.
  uint32_t control_class() const { return separate_control ? 1 : 0; }
  /// Class of the link that a packet takes.
  uint32_t class_of(const RoceView& packet) const {
    return separate_control && is_control(packet) ? 1 : 0;
  }

 private:
  static bool is_control(const RoceView& packet);
};

}  // namespace understudy
