#include "ctrl/shards/nccl_queue_pair.h"

#include <algorithm>

#include "ctrl/compile/shard_config.h"
#include "ctrl/schedule/net_ib_environment.h"

namespace understudy {

unsigned nic_with(const NodeConfig& node, const IpAddress& address) {
  const auto own = [&](const NicConfig& nic) { return nic.v4 == address || nic.v6 == address; };
  const auto it = std::ranges::find_if(node.nics, own);
  return it == node.nics.end() ? 0 : static_cast<unsigned>(it - node.nics.begin());
}

QpConfig nccl_queue_pair(const Config& config, NcclVersion version, const NcclNic& from,
                         const NcclNic& to, Qpn qpn, Qpn remote, uint32_t mtu,
                         uint8_t traffic_class, bool credits) {
  QpConfig qp;
  qp.node = from.node->index;
  qp.qpn = qpn;
  qp.remote_qpn = remote;
  qp.mtu = mtu;
  const NetIbRetries retries = net_ib_environment(config).retries_of(version);
  qp.timeout = retries.timeout;
  qp.retry_count = retries.count;
  qp.min_rnr_timer = 12;
  qp.control = credits;
  qp.access = kAccessRemoteWrite;  // as NCCL makes its queue pairs
  qp.addressing = addressing(from.node->nics[from.nic], to.node->nics[to.nic], traffic_class);
  qp.addressing.udp_src = udp_source_port(config, qpn, remote);
  return qp;
}

}  // namespace understudy
