#include "tools/ring_node/verbs_links.h"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

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

Result<std::unique_ptr<VerbsLinks>> VerbsLinks::make(const VerbsDevice& device,
                                                     const RingJobMessage& job, uint32_t channel) {
  std::unique_ptr<VerbsLinks> links(new VerbsLinks(device, job, channel));
  if (auto allocated = links->allocate(); !allocated) return fail(allocated.error().text);
  return links;
}

Result<void> VerbsLinks::allocate() {
  const size_t buffer = size_t{kRingSteps} * job_.cutting.step_bytes;
  const std::pair<RegisteredMemory*, size_t> wanted[] = {{&receive_buffer_, buffer},
                                                         {&send_buffer_, buffer},
                                                         {&credits_in_, kRingFifoBytes},
                                                         {&credits_out_, kRingFifoBytes}};
  for (auto [memory, bytes] : wanted) {
    auto made = RegisteredMemory::make(device_.domain(), bytes,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!made) return fail(made.error().text);
    *memory = std::move(*made);
  }
  for (VerbsQueuePair* qp : {&to_next_, &from_previous_}) {
    auto made = make_queue_pair();
    if (!made) return fail(made.error().text);
    *qp = std::move(*made);
  }
  return {};
}

Result<VerbsQueuePair> VerbsLinks::make_queue_pair() const {
  ibv_qp_init_attr init{};
  init.send_cq = device_.completion_queue();
  init.recv_cq = device_.completion_queue();
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = kMaxSendRequests;
  init.cap.max_recv_wr = kMaxReceiveRequests;
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  VerbsQueuePair qp(ibv_create_qp(device_.domain(), &init));
  if (!qp) return verbs_failure("ibv_create_qp", errno);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = 0;
  attr.port_num = device_.port();
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const int error = ibv_modify_qp(
      qp.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return verbs_failure("ibv_modify_qp to INIT", error);
  return qp;
}

RingLinkEnd VerbsLinks::end(RingDirection direction) const {
  const bool sends = direction == RingDirection::kClientSends;
  RingLinkEnd end;
  end.channel = channel_;
  end.direction = direction;
  end.qpn = (sends ? to_next_ : from_previous_)->qp_num;
  end.psn = Psn(0);
  end.mtu = device_.mtu();
  end.gid = device_.gid();
  end.fifo_address = sends ? credits_in_.address() : 0;
  end.fifo_rkey = sends ? credits_in_.rkey() : 0;
  return end;
}

Result<void> VerbsLinks::connect(const RingLinkEnd& theirs) {
  const bool sends = theirs.direction == RingDirection::kClientSends;
  ibv_qp* qp = (sends ? to_next_ : from_previous_).get();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mtu_code(theirs.mtu);
  attr.dest_qp_num = theirs.qpn;
  attr.rq_psn = theirs.psn.value();
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = kMinRnrTimer;
  attr.ah_attr.is_global = 1;
  std::memcpy(attr.ah_attr.grh.dgid.raw, theirs.gid.data(), sizeof attr.ah_attr.grh.dgid.raw);
  attr.ah_attr.grh.sgid_index = device_.gid_index();
  attr.ah_attr.grh.hop_limit = kHopLimit;
  attr.ah_attr.grh.traffic_class = sends ? job_.data_traffic_class : job_.control_traffic_class;
  attr.ah_attr.port_num = device_.port();
  int error = ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) {
    return verbs_failure(
        "ibv_modify_qp to RTR towards " + theirs.gid.text() + " (its MAC address is resolved here)",
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
  if (!sends) {
    fifo_address_ = theirs.fifo_address;
    fifo_rkey_ = theirs.fifo_rkey;
  }
  return {};
}

Result<void> VerbsLinks::grant(uint64_t k) {
  ibv_recv_wr receive{};
  receive.wr_id = work_id(channel_, kReceive);
  ibv_recv_wr* bad_receive = nullptr;
  if (int error = ibv_post_recv(from_previous_.get(), &receive, &bad_receive)) {
    return verbs_failure("ibv_post_recv", error);
  }

  const uint64_t offset = k % kFifoSlots * kFifoStride;
  auto* entry = reinterpret_cast<CreditEntry*>(credits_out_.data() + offset);
  *entry = {.address = receive_buffer_.address() + slot_offset(k),
            .size = uint64_t{job_.cutting.step_bytes} * job_.cutting.slice_steps,
            .rkeys = {receive_buffer_.rkey()},
            .nreqs = 1,
            .tag = (job_.client_rank + job_.ranks - 1) % job_.ranks,
            .idx = k + 1,
            .padding = {}};
  ibv_sge piece{.addr = credits_out_.address() + offset,
                .length = sizeof(CreditEntry),
                .lkey = credits_out_.lkey()};
  ibv_send_wr write{};
  write.wr_id = work_id(channel_, kCredit);
  write.sg_list = &piece;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE;
  // One completion per round of the FIFO lets the driver reclaim the send queue (nccl-wire 3.1).
  write.send_flags = k % kFifoSlots == 0 ? IBV_SEND_SIGNALED : 0;
  write.wr.rdma.remote_addr = fifo_address_ + offset;
  write.wr.rdma.rkey = fifo_rkey_;
  ibv_send_wr* bad_write = nullptr;
  if (int error = ibv_post_send(from_previous_.get(), &write, &bad_write)) {
    return verbs_failure("ibv_post_send of a credit", error);
  }
  return {};
}

const CreditEntry* VerbsLinks::credit(uint64_t k) {
  auto* entry = reinterpret_cast<CreditEntry*>(credits_in_.data() + k % kFifoSlots * kFifoStride);
  // The device writes behind the compiler's back; idx is the last word of a credit to arrive.
  const uint64_t idx = std::atomic_ref(entry->idx).load(std::memory_order_acquire);
  return idx == k + 1 ? entry : nullptr;
}

Result<void> VerbsLinks::send(uint64_t k, const CreditEntry& credit, uint32_t bytes) {
  ibv_sge piece{.addr = send_buffer_.address() + slot_offset(k),
                .length = bytes,
                .lkey = send_buffer_.lkey()};
  ibv_send_wr write{};
  write.wr_id = work_id(channel_, kData);
  write.sg_list = &piece;
  write.num_sge = bytes == 0 ? 0 : 1;
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.send_flags = IBV_SEND_SIGNALED;
  write.imm_data = bytes;  // host byte order up to NCCL 2.28 (nccl-wire 3.2)
  write.wr.rdma.remote_addr = credit.address;
  write.wr.rdma.rkey = credit.rkeys[0];
  ibv_send_wr* bad = nullptr;
  if (int error = ibv_post_send(to_next_.get(), &write, &bad)) {
    return verbs_failure("ibv_post_send of data", error);
  }
  return {};
}

size_t VerbsLinks::slot_offset(uint64_t k) const {
  return k * job_.cutting.slice_steps % kRingSteps * job_.cutting.step_bytes;
}

const float* VerbsLinks::receive_slot(uint64_t k) {
  return reinterpret_cast<const float*>(receive_buffer_.data() + slot_offset(k));
}

float* VerbsLinks::send_slot(uint64_t k) {
  return reinterpret_cast<float*>(send_buffer_.data() + slot_offset(k));
}

}  // namespace understudy
