// The reference rank's RMA proxy (docs/nccl 3.16; source of 2.29.7 and 2.30.7: rma/rma_proxy.cc,
// transport/net_ib/gin.cc, ce_coll.cc, dev_runtime.cc): windows, signals, and the all-gather without
// kernels, which programs make of signals and puts in 2.29. It does not connect to itself, as NCCL
// does.
#pragma once

#include <deque>
#include <vector>

#include "tests/rigs/nccl_rank/real_rank.h"
#include "tests/rigs/nccl_rank/rma_ring.h"

namespace understudy::nccl_rank {

class GinProxy;

class RmaProxy {
 public:
  /// All outlive this.
  RmaProxy(RealRank& rank, Communicator& comm, RmaAdapter& adapter)
      : rank_(rank), comm_(comm), adapter_(adapter), ring_(rank, comm, adapter) {}

  using Window = RmaWindow;
  /// GIN registers windows, too, once it is connected.
  void beside(GinProxy& gin) { gin_ = &gin; }
  /// NCCL_RMA_DISABLE.
  void set_disabled(bool disabled) { disabled_ = disabled; }
  /// Windows of any kind, the oldest first.
  const std::vector<RmaMemory>& memories() const { return memories_; }
  /// numRmaCtx, in 2.29.
  void set_contexts(int contexts) { contexts_ = contexts; }
  /// It stands still before that barrier of its mesh, for ever.
  void stop_before(int barrier) { stops_before_ = barrier; }
  /// ncclCommWindowRegister; null: the RMA proxy has no part in it.
  Task<Window*> register_window(uint64_t bytes);
  /// ncclAllGather with NCCL_CTA_POLICY_ZERO, in place: each rank's slice of `bytes`, from `offset`
  /// on in the window.
  Task<> all_gather(Window* window, uint64_t offset, uint64_t bytes);
  /// ncclAlltoAll, the same: block `rank` of `from` goes into block `own rank` of that rank's `to`.
  Task<> all_to_all(Window* from, Window* to, uint64_t offset, uint64_t bytes);
  /// ncclPutSignal to a peer, at the place that it has here; and ncclWaitSignal for one of its.
  Task<> put_signal(Window* window, uint64_t offset, uint64_t bytes, int peer);
  Task<> wait_signal(int peer);
  /// A signal that the peer's NIC is to refuse: `behind` its last one, or with another `key`. Until the
  /// queue pair has failed.
  Task<> refused_signal(int peer, uint64_t behind, uint32_t key);
  /// A READ, as GIN's get is one.
  Task<> get(Window* window, uint64_t offset, uint64_t bytes, int peer, uint8_t* to);
  /// Counters that peers have signalled.
  uint64_t signal_of(int peer);

 private:
  int size() const { return comm_.size(); }
  int own() const { return comm_.rank(); }
  Task<> connect();
  Task<> barrier(int tag);
  void send_signal(int peer);
  Task<> enter();
  Task<> finish();
  Task<> settled(std::string what);

  RealRank& rank_;
  Communicator& comm_;
  RmaAdapter& adapter_;
  RmaRing ring_;
  GinProxy* gin_ = nullptr;
  std::vector<RmaMemory> memories_;
  bool connected_ = false, disabled_ = false;
  int stops_before_ = -1, contexts_ = 1;
  std::vector<uint64_t> expected_;  ///< signals of each peer that have been waited for
  struct Sent {
    int peer = 0;
    uint64_t number = 0, original = 0;
  };
  std::deque<Sent> signals_;
  std::vector<uint64_t> sent_;  ///< signals to each peer
};

}  // namespace understudy::nccl_rank
