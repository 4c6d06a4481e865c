// The reference rank's GIN by its CPU proxy (docs/nccl 3.16; source of 2.28.9, 2.29.7 and 2.30.7:
// gin/gin_host.cc, gin/gin_host_proxy.cc, dev_runtime.cc): device communicators, and what their kernels ask for.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "tests/rigs/nccl_rank/real_rank.h"
#include "tests/rigs/nccl_rank/rma_proxy.h"

namespace understudy::nccl_rank {

class GinProxy {
 public:
  /// All outlive this. `contexts`: an adapter of each that a device communicator has.
  /// `rings`: one, or up to 2.29 of each context.
  GinProxy(RealRank& rank, Communicator& comm, RmaProxy& windows,
           const std::vector<RmaAdapter*>& rings, std::vector<RmaAdapter*> contexts)
      : rank_(rank), comm_(comm), windows_(windows), contexts_(std::move(contexts)) {
    for (RmaAdapter* ring : rings) rings_.emplace_back(rank, comm, *ring);
  }

  /// ncclDevCommCreate: once. `signals`: of each context; `buffer`: bytes of its own window.
  Task<> create_device_communicator(uint64_t signals, uint64_t buffer);
  /// A window, if it is connected.
  Task<> registers(RmaMemory memory);

  // What a kernel asks for on a context; settled() is a flush.
  void put(int context, const RmaMemory& memory, uint64_t to, uint64_t from, uint64_t bytes,
           int peer);
  void signal(int context, uint64_t number, uint64_t value, int peer);
  void get(int context, const RmaMemory& memory, uint64_t from, uint64_t bytes, int peer,
           uint8_t* to);
  Task<> settled(std::string what);
  /// Until the rank's own signal is as much.
  Task<> wait_signal(int context, uint64_t number, uint64_t value);
  uint64_t signal_of(int context, uint64_t number) const;
  int contexts() const { return static_cast<int>(contexts_.size()); }

 private:
  int minor() const { return rank_.world().release.minor; }
  Task<> connect();
  Task<> make_context(size_t ring, uint64_t signals, size_t contexts);
  size_t ring_of(int context) const { return minor() < 29 ? static_cast<size_t>(context) : 0; }
  /// As a ring's ranks know it.
  RmaWindow& window(int context, const RmaMemory& memory);
  uint64_t place(int context, uint64_t number) const;

  RealRank& rank_;
  Communicator& comm_;
  RmaProxy& windows_;
  std::deque<RmaRing> rings_;
  std::vector<RmaAdapter*> contexts_;
  std::vector<RmaWindow*> signals_;  ///< of each ring
  uint64_t of_context_ = 0;
  bool connected_ = false;
  struct Sent {
    uint64_t expected = 0, original = 0;
    int peer = 0;
  };
  std::deque<Sent> sent_;
  std::map<std::pair<int, uint64_t>, uint64_t> totals_;  ///< by peer and place
};

}  // namespace understudy::nccl_rank
