#include "ctrl/session/nccl_queue_pair.h"

#include "ctrl/build/rail.h"

namespace understudy {

QpConfig nccl_queue_pair(const Config& config, const NcclNic& from, const NcclNic& to, Qpn qpn,
                         Qpn remote, uint32_t mtu, uint8_t traffic_class, bool credits) {
  QpConfig qp;
  qp.node = from.node->index;
  qp.qpn = qpn;
  qp.remote_qpn = remote;
  qp.mtu = mtu;
  qp.timeout = 20;
  qp.min_rnr_timer = 12;
  qp.control = credits;
  qp.access = kAccessRemoteWrite;  // as NCCL makes its queue pairs
  qp.addressing = addressing(from.node->nics[from.nic], to.node->nics[to.nic], traffic_class);
  qp.addressing.udp_src = udp_source_port(config, qpn, remote);
  return qp;
}

}  // namespace understudy
