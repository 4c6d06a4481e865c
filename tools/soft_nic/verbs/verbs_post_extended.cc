// Verbs: the ibv_wr_* calls, which gather work requests between ibv_wr_start() and
// ibv_wr_complete(). They become plain ones, posted together.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "tools/soft_nic/base/device_limits.h"
#include "tools/soft_nic/device/operations.h"
#include "tools/soft_nic/device/queue_pair.h"

namespace understudy::soft_nic {

namespace {

struct Gathered {
  ibv_send_wr request{};
  std::array<ibv_sge, kMaxPieces> pieces;
  std::array<uint8_t, kMaxInline> copied;
};

/// What a thread gathers for a queue pair. The calls between start and complete may not mix queue
/// pairs' threads (ibv_wr_post(3)), but a thread may gather for several.
struct Batch {
  ibv_qp_ex* qp = nullptr;
  std::deque<Gathered> requests;  // grows at the first batches, then stays
  size_t count = 0;
  int failed = 0;
};

Batch& batch_of(ibv_qp_ex* qp) {
  thread_local std::vector<Batch> batches;
  auto at =
      std::find_if(batches.begin(), batches.end(), [&](const Batch& b) { return b.qp == qp; });
  if (at == batches.end()) {
    at = std::find_if(batches.begin(), batches.end(),
                      [](const Batch& b) { return b.qp == nullptr; });
  }
  Batch& batch = at != batches.end() ? *at : batches.emplace_back();
  batch.qp = qp;
  return batch;
}

ibv_send_wr& add(ibv_qp_ex* qp, ibv_wr_opcode opcode) {
  Batch& batch = batch_of(qp);
  if (batch.count == batch.requests.size()) batch.requests.emplace_back();
  ibv_send_wr& request = batch.requests[batch.count++].request;
  request = {};
  request.wr_id = qp->wr_id;
  request.send_flags = qp->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  request.opcode = opcode;
  return request;
}

void add_rdma(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t at, __be32 imm) {
  ibv_send_wr& request = add(qp, opcode);
  request.wr.rdma.remote_addr = at;
  request.wr.rdma.rkey = rkey;
  request.imm_data = imm;
}

void add_atomic(ibv_qp_ex* qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t at, uint64_t compare,
                uint64_t swap) {
  ibv_send_wr& request = add(qp, opcode);
  request.wr.atomic.remote_addr = at;
  request.wr.atomic.rkey = rkey;
  request.wr.atomic.compare_add = compare;
  request.wr.atomic.swap = swap;
}

void set_pieces(ibv_qp_ex* qp, size_t count, const ibv_sge* pieces) {
  Batch& batch = batch_of(qp);
  if (batch.count == 0 || count > kMaxPieces) {
    batch.failed = EINVAL;
    return;
  }
  Gathered& last = batch.requests[batch.count - 1];
  std::copy_n(pieces, count, last.pieces.begin());
  last.request.num_sge = static_cast<int>(count);
}

void set_inline(ibv_qp_ex* qp, size_t count, const ibv_data_buf* parts) {
  Batch& batch = batch_of(qp);
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += parts[i].length;
  if (batch.count == 0 || bytes > kMaxInline) {
    batch.failed = EINVAL;
    return;
  }
  Gathered& last = batch.requests[batch.count - 1];
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    if (parts[i].length != 0) std::memcpy(last.copied.data() + at, parts[i].addr, parts[i].length);
    at += parts[i].length;
  }
  last.pieces[0] = {0, static_cast<uint32_t>(bytes), 0};  // its address follows at the end
  last.request.num_sge = 1;
  last.request.send_flags |= IBV_SEND_INLINE;
}

int complete(ibv_qp_ex* qp) {
  Batch& batch = batch_of(qp);
  const size_t count = std::exchange(batch.count, 0);
  batch.qp = nullptr;
  if (const int failed = std::exchange(batch.failed, 0)) return failed;
  for (size_t i = 0; i < count; ++i) {
    Gathered& it = batch.requests[i];
    it.request.sg_list = it.pieces.data();
    if ((it.request.send_flags & IBV_SEND_INLINE) != 0) {
      it.pieces[0].addr = reinterpret_cast<uintptr_t>(it.copied.data());
    }
    it.request.next = i + 1 < count ? &batch.requests[i + 1].request : nullptr;
  }
  if (count == 0) return 0;
  ibv_send_wr* bad = nullptr;
  return post_send(&qp->qp_base, &batch.requests[0].request, &bad);
}

void forget(ibv_qp_ex* qp) {
  Batch& batch = batch_of(qp);
  batch.count = 0;
  batch.failed = 0;
  batch.qp = nullptr;
}

}  // namespace

void fill_post_operations(ibv_qp_ex& qp) {
  qp.wr_start = [](ibv_qp_ex* of) {
    Batch& batch = batch_of(of);
    batch.count = 0;
    batch.failed = 0;
  };
  qp.wr_complete = complete;
  qp.wr_abort = forget;
  qp.wr_send = [](ibv_qp_ex* of) { add(of, IBV_WR_SEND); };
  qp.wr_send_imm = [](ibv_qp_ex* of, __be32 imm) { add(of, IBV_WR_SEND_WITH_IMM).imm_data = imm; };
  qp.wr_send_inv = [](ibv_qp_ex* of, uint32_t rkey) {
    add(of, IBV_WR_SEND_WITH_INV).invalidate_rkey = rkey;
  };
  qp.wr_rdma_write = [](ibv_qp_ex* of, uint32_t rkey, uint64_t at) {
    add_rdma(of, IBV_WR_RDMA_WRITE, rkey, at, 0);
  };
  qp.wr_rdma_write_imm = [](ibv_qp_ex* of, uint32_t rkey, uint64_t at, __be32 imm) {
    add_rdma(of, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, at, imm);
  };
  qp.wr_rdma_read = [](ibv_qp_ex* of, uint32_t rkey, uint64_t at) {
    add_rdma(of, IBV_WR_RDMA_READ, rkey, at, 0);
  };
  qp.wr_atomic_cmp_swp = [](ibv_qp_ex* of, uint32_t rkey, uint64_t at, uint64_t compare,
                            uint64_t swap) {
    add_atomic(of, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, at, compare, swap);
  };
  qp.wr_atomic_fetch_add = [](ibv_qp_ex* of, uint32_t rkey, uint64_t at, uint64_t number) {
    add_atomic(of, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, at, number, 0);
  };
  qp.wr_set_ud_addr = [](ibv_qp_ex* of, ibv_ah* ah, uint32_t qpn, uint32_t qkey) {
    Batch& batch = batch_of(of);
    if (batch.count == 0) {
      batch.failed = EINVAL;
    } else {
      batch.requests[batch.count - 1].request.wr.ud = {ah, qpn, qkey};
    }
  };
  qp.wr_set_sge = [](ibv_qp_ex* of, uint32_t lkey, uint64_t addr, uint32_t length) {
    const ibv_sge piece{addr, length, lkey};
    set_pieces(of, 1, &piece);
  };
  qp.wr_set_sge_list = set_pieces;
  qp.wr_set_inline_data = [](ibv_qp_ex* of, void* addr, size_t length) {
    const ibv_data_buf part{addr, length};
    set_inline(of, 1, &part);
  };
  qp.wr_set_inline_data_list = set_inline;
}

}  // namespace understudy::soft_nic
