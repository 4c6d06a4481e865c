// Congestion control for a queue pair, as the configuration names it.
#pragma once

#include <memory>

#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/engine/state/qp_control.h"

namespace understudy {

/// For a queue pair of NIC `nic` of `node` towards the real node behind `port`, or of the reference
/// node there towards `node` (`from_real`), with this path MTU; null if `sender` names no control.
/// `topology`: the network with switches between them, null without.
std::unique_ptr<QpControl> make_qp_control(const Config& config, const Topology* topology,
                                           const SenderConfig& sender, NodeId node, unsigned nic,
                                           const PortConfig& port, uint32_t mtu,
                                           bool from_real = false);

}  // namespace understudy
