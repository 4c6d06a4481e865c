#include "tools/rigs/ring_node/verbs/verbs_queue_pair.h"

#include <bit>
#include <cerrno>
#include <cstring>

namespace understudy {
namespace {

constexpr uint32_t kMaxSendRequests = 512;
constexpr uint32_t kMaxReceiveRequests = 256;
constexpr uint8_t kTimeout = 20;  ///< 4.096 us << 20 = 4.3 s
constexpr uint8_t kRetryCount = 7;
constexpr uint8_t kRnrRetry = 7;  ///< for ever
constexpr uint8_t kMinRnrTimer = 12;
constexpr uint8_t kHopLimit = 255;

tl::unexpected<Error> verbs_failure(const std::string& what, int error) {
  return fail(what + ": " + std::strerror(error));
}

ibv_mtu mtu_code(uint32_t bytes) {
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);  // 256 is IBV_MTU_256 = 1
}

}  // namespace

Result<VerbsQueuePair> make_queue_pair(const VerbsDevice& device, int access) {
  ibv_qp_init_attr init{};
  init.send_cq = device.completion_queue();
  init.recv_cq = device.completion_queue();
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = kMaxSendRequests;
  init.cap.max_recv_wr = kMaxReceiveRequests;
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  VerbsQueuePair qp(ibv_create_qp(device.domain(), &init));
  if (!qp) return verbs_failure("ibv_create_qp", errno);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = 0;
  attr.port_num = device.port();
  attr.qp_access_flags = static_cast<unsigned>(access);
  const int error = ibv_modify_qp(
      qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return verbs_failure("ibv_modify_qp to INIT", error);
  return qp;
}

Result<void> connect_queue_pair(ibv_qp* qp, const VerbsDevice& device, const QueuePairPeer& peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mtu_code(peer.mtu);
  attr.dest_qp_num = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kMinRnrTimer;
  attr.ah_attr.is_global = 1;
  std::memcpy(attr.ah_attr.grh.dgid.raw, peer.gid.data(), sizeof attr.ah_attr.grh.dgid.raw);
  attr.ah_attr.grh.sgid_index = device.gid_index();
  attr.ah_attr.grh.hop_limit = kHopLimit;
  attr.ah_attr.grh.traffic_class = peer.traffic_class;
  attr.ah_attr.port_num = device.port();
  int error = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) {
    return verbs_failure(
        "ibv_modify_qp to RTR towards " + peer.gid.text() + " (its MAC address is resolved here)",
        error);
  }
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = kTimeout;
  attr.retry_cnt = kRetryCount;
  attr.rnr_retry = kRnrRetry;
  attr.sq_psn = 0;
  attr.max_rd_atomic = 1;
  error = ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0) return verbs_failure("ibv_modify_qp to RTS", error);
  return {};
}

Result<void> post_write(ibv_qp* qp, const VerbsWrite& write, const std::string& what) {
  ibv_sge piece{.addr = write.local, .length = write.bytes, .lkey = write.lkey};
  ibv_send_wr request{};
  request.wr_id = write.id;
  request.sg_list = &piece;
  request.num_sge = write.bytes == 0 ? 0 : 1;
  request.opcode = write.immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.send_flags = write.signalled ? IBV_SEND_SIGNALED : 0;
  request.imm_data = write.immediate.value_or(0);
  request.wr.rdma.remote_addr = write.remote;
  request.wr.rdma.rkey = write.rkey;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, &request, &bad);
  if (error != 0) return verbs_failure("ibv_post_send of " + what, error);
  return {};
}

Result<void> post_receive(ibv_qp* qp, uint64_t id) {
  ibv_recv_wr receive{};
  receive.wr_id = id;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp, &receive, &bad);
  if (error != 0) return verbs_failure("ibv_post_recv", error);
  return {};
}

}  // namespace understudy
