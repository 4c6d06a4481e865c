// A queue pair of one of NCCL's connections, with NCCL's attributes.
#pragma once

#include "ctrl/config/config.h"
#include "dataplane/rc/types.h"

namespace understudy {

/// One end of a way between two NICs.
struct NcclNic {
  const NodeConfig* node = nullptr;
  unsigned nic = 0;
};

/// The NIC of `node` that has this address; 0 if none has.
unsigned nic_with(const NodeConfig& node, const IpAddress& address);

/// NCCL's attributes (rule A0): PSNs from 0, timeout 20 (before 2.23: 18) and retry count 7 unless
/// [nccl] environment says otherwise, RNR timer 12 and no end of its retries. `credits`: what it sends are credits.
QpConfig nccl_queue_pair(const Config& config, NcclVersion version, const NcclNic& from,
                         const NcclNic& to, Qpn qpn, Qpn remote, uint32_t mtu,
                         uint8_t traffic_class, bool credits);

}  // namespace understudy
