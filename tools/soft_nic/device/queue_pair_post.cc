// Work requests on their way into a queue pair.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/device/queue_pair.h"

namespace understudy::soft_nic {

namespace {

constexpr uint32_t kAtomicBytes = 8;

struct Operation {
  WorkOp op;
  ibv_wc_opcode completion;
  bool answered = false;  ///< READ or ATOMIC: data come back
};

std::optional<Operation> operation_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return Operation{WorkOp::kSend, IBV_WC_SEND};
    case IBV_WR_SEND_WITH_IMM:
      return Operation{WorkOp::kSendImm, IBV_WC_SEND};
    case IBV_WR_SEND_WITH_INV:
      return Operation{WorkOp::kSendInvalidate, IBV_WC_SEND};
    case IBV_WR_RDMA_WRITE:
      return Operation{WorkOp::kWrite, IBV_WC_RDMA_WRITE};
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return Operation{WorkOp::kWriteImm, IBV_WC_RDMA_WRITE};
    case IBV_WR_RDMA_READ:
      return Operation{WorkOp::kRead, IBV_WC_RDMA_READ, true};
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return Operation{WorkOp::kCompareSwap, IBV_WC_COMP_SWAP, true};
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return Operation{WorkOp::kFetchAdd, IBV_WC_FETCH_ADD, true};
    default:
      return std::nullopt;
  }
}

bool is_atomic(WorkOp op) { return op == WorkOp::kCompareSwap || op == WorkOp::kFetchAdd; }

uint64_t length_of(const ibv_send_wr& request) {
  uint64_t bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) bytes += request.sg_list[i].length;
  return bytes;
}

}  // namespace

/// What ibv_post_send() refuses at once; the rest is for completions to say.
int QueuePair::check_send(const ibv_send_wr& request) const {
  const auto operation = operation_of(request.opcode);
  if (!operation) return EINVAL;
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > created_.cap.max_send_sge) {
    return EINVAL;
  }
  if (is_datagrams()) {
    if (const int refused = check_datagram(request)) return refused;
  }
  if (!is_datagrams() && operation->answered && attributes_.max_rd_atomic == 0) return EINVAL;
  if (is_unreliable() && operation->op == WorkOp::kSendInvalidate) return EINVAL;
  if ((request.send_flags & IBV_SEND_INLINE) != 0 &&
      (operation->answered || length_of(request) > created_.cap.max_inline_data)) {
    return EINVAL;
  }
  return sends_.full() ? ENOMEM : 0;
}

int QueuePair::post_send(const ibv_send_wr& request) {
  const ibv_qp_state state = attributes_.qp_state;
  if (state != IBV_QPS_RTS && state != IBV_QPS_SQD && state != IBV_QPS_ERR) return EINVAL;
  if (const int refused = check_send(request)) return refused;
  Work& work = sends_.push();
  work.id = request.wr_id;
  work.signaled = created_.sq_sig_all != 0 || (request.send_flags & IBV_SEND_SIGNALED) != 0;
  const Operation operation = *operation_of(request.opcode);
  work.opcode = operation.completion;
  if (state == IBV_QPS_ERR) {
    complete(work, IBV_WC_WR_FLUSH_ERR);
    sends_.pop();
    return 0;
  }
  const uint64_t length = length_of(request);
  work.length = static_cast<uint32_t>(length);
  if (length > kMaxMessageBytes || (is_atomic(operation.op) && length != kAtomicBytes)) {
    work.refused = IBV_WC_LOC_LEN_ERR;
  } else if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    take_inline(request, work);
  } else {
    work.refused = find_pieces(request, operation.answered, work);
  }
  if (work.refused != IBV_WC_SUCCESS || blocked_) {
    blocked_ = true;
    finish_refused();
    return 0;
  }
  work.begun = true;
  if (is_datagrams()) {
    address(request, work.datagram);
    return 0;
  }
  if (rc_->post(translate(request, work))) return 0;
  sends_.unpush();  // more packets than PSNs can tell apart
  return ENOMEM;
}

void QueuePair::take_inline(const ibv_send_wr& request, Work& work) {
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& from = request.sg_list[i];
    // Verbs give addresses as numbers. NOLINTNEXTLINE(performance-no-int-to-ptr)
    const auto* bytes = reinterpret_cast<const uint8_t*>(from.addr);
    work.copied.insert(work.copied.end(), bytes, bytes + from.length);
  }
  work.pieces.push_back({work.copied.data(), work.length, 0});
}

ibv_wc_status QueuePair::find_pieces(const ibv_send_wr& request, bool writes, Work& work) {
  for (int i = 0; i < request.num_sge; ++i) {
    const ibv_sge& from = request.sg_list[i];
    if (from.length == 0) continue;
    const Region* region = nic_.regions().find(from.lkey, domain_);
    if (region == nullptr || !region->covers(from.addr, from.length) ||
        (writes && (region->access & kAccessLocalWrite) == 0)) {
      return IBV_WC_LOC_PROT_ERR;
    }
    work.pieces.push_back({region->bytes + (from.addr - region->va), from.length, region->number});
  }
  return IBV_WC_SUCCESS;
}

WorkRequest QueuePair::translate(const ibv_send_wr& request, Work& work) {
  const Operation operation = *operation_of(request.opcode);
  WorkRequest out;
  out.op = operation.op;
  out.length = work.length;
  out.fence = (request.send_flags & IBV_SEND_FENCE) != 0;
  out.solicited = (request.send_flags & IBV_SEND_SOLICITED) != 0;
  out.imm = ntohl(request.imm_data);
  out.invalidate = request.invalidate_rkey;
  if (is_atomic(operation.op)) {
    out.remote_va = request.wr.atomic.remote_addr;
    out.rkey = request.wr.atomic.rkey;
    out.compare_add = request.wr.atomic.compare_add;
    out.swap = request.wr.atomic.swap;
  } else {
    out.remote_va = request.wr.rdma.remote_addr;
    out.rkey = request.wr.rdma.rkey;
  }
  uint8_t* first = work.pieces.empty() ? nullptr : work.pieces.front().bytes;
  if (operation.answered) {
    if (work.pieces.size() > 1) work.copied.resize(work.length);
    out.read_to = work.pieces.size() > 1 ? work.copied.data() : first;
  } else if (work.pieces.size() > 1) {
    out.payload.source = &sends_;
    out.payload.cookie = sends_.slot_of(work);
  } else {
    out.payload.bytes = first;
  }
  return out;
}

int QueuePair::post_receive(const ibv_recv_wr& request) {
  if (attributes_.qp_state == IBV_QPS_RESET || shared_ != nullptr || request.num_sge < 0) {
    return EINVAL;
  }
  const int posted =
      own_receives_->post(request.wr_id, {request.sg_list, static_cast<size_t>(request.num_sge)});
  if (posted == 0 && attributes_.qp_state == IBV_QPS_ERR) flush_receives();
  return posted;
}

}  // namespace understudy::soft_nic
