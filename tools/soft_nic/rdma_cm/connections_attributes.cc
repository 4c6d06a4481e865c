// What the connection manager knows of a queue pair's attributes.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/soft_nic/base/device_limits.h"
#include "tools/soft_nic/rdma_cm/connections.h"

namespace understudy::soft_nic {

namespace {

constexpr uint8_t kMinRnrTimer = 12;  ///< 0.64 ms
constexpr uint8_t kHops = 64;

uint8_t reads(uint8_t wanted) { return std::min<uint8_t>(wanted, kMaxReads); }

}  // namespace

void Connections::fill_way(const Id& id, ibv_ah_attr& out) const {
  out.is_global = 1;
  out.port_num = 1;
  out.grh.sgid_index = static_cast<uint8_t>(nic_.interface().index_of(id.local));
  out.grh.hop_limit = kHops;
  out.grh.traffic_class = id.traffic_class;
  out.sl = id.traffic_class >> 5;  // as Linux maps it
  std::memcpy(out.grh.dgid.raw, id.peer.gid().data(), id.peer.gid().size());
}

int Connections::attributes(const Id& id, ibv_qp_state state, ibv_qp_attr& out, int& mask) const {
  out = {};
  out.qp_state = state;
  mask = IBV_QP_STATE;
  if (id.has_datagrams()) {
    out.qkey = RDMA_UDP_QKEY;
    out.port_num = 1;
    if (state == IBV_QPS_INIT) mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY;
    if (state == IBV_QPS_RTS) mask |= IBV_QP_SQ_PSN;
    return 0;
  }
  out.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (id.responder_resources != 0) {
    out.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
  switch (state) {
    case IBV_QPS_INIT:
      out.port_num = 1;
      mask |= IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
      return 0;
    case IBV_QPS_RTR:
      fill_way(id, out.ah_attr);
      out.path_mtu = IBV_MTU_256;
      while (out.path_mtu < IBV_MTU_4096 && 128U << (out.path_mtu + 1) <= id.mtu) {
        out.path_mtu = static_cast<ibv_mtu>(out.path_mtu + 1);
      }
      out.dest_qp_num = id.peer_qpn;
      out.rq_psn = id.own_psn.value();
      out.max_dest_rd_atomic = reads(id.responder_resources);
      out.min_rnr_timer = kMinRnrTimer;
      mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      return 0;
    case IBV_QPS_RTS:
      out.timeout = id.ack_timeout;
      out.retry_cnt = id.retry_count;
      out.rnr_retry = id.rnr_retry;
      out.sq_psn = id.peer_psn.value();
      out.max_rd_atomic = reads(id.initiator_depth);
      mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
              IBV_QP_MAX_QP_RD_ATOMIC;
      return 0;
    default:
      return EINVAL;
  }
}

int Connections::make_ready(Id& id) {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attr;
    int mask = 0;
    attributes(id, state, attr, mask);
    if (const int failed = ibv_modify_qp(id.ibv.qp, &attr, mask)) return failed;
  }
  return 0;
}

}  // namespace understudy::soft_nic
