// The reference rank's RMA proxy (docs/nccl 3.16; source of 2.30.7: rma/rma_proxy.cc,
// transport/net_ib/gin.cc, ce_coll.cc, dev_runtime.cc): windows, signals, and the all-gather without
// kernels. It does not connect to itself, as NCCL does.
#pragma once

#include <deque>
#include <vector>

#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {

/// Memory that can be reached from others.
struct RmaMemory {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint8_t* bytes = nullptr;
  uint64_t size = 0;
};

/// What makes a rank's queue pairs for one-sided operations, and posts on them.
class RmaAdapter : public IbAdapter {
 public:
  static constexpr int kRing = 2, kMesh = 3;  ///< Link::index
  virtual RmaMemory expose(uint64_t bytes) = 0;
  // On the ring: one message at a time, and how many were sent, or have come, of those.
  virtual void ring_send(Bytes bytes) = 0;
  virtual void ring_receive(size_t bytes) = 0;
  virtual size_t ring_sent() const = 0;
  virtual const std::deque<Bytes>& ring_received() const = 0;
  // On the mesh: to or from a peer's memory. Each is counted when it is done.
  virtual void put(int peer, const uint8_t* from, uint64_t bytes, uint64_t address,
                   uint32_t rkey) = 0;
  /// Adds one; what was there before goes to `original`.
  virtual void signal(int peer, uint64_t* original, uint64_t address, uint32_t rkey) = 0;
  virtual void get(int peer, uint8_t* to, uint64_t bytes, uint64_t address, uint32_t rkey) = 0;
  virtual size_t posted() const = 0;
  virtual size_t done() const = 0;
  virtual bool failed() const = 0;
};

class RmaProxy {
 public:
  /// All outlive this.
  RmaProxy(RealRank& rank, Communicator& comm, RmaAdapter& adapter)
      : rank_(rank), comm_(comm), adapter_(adapter) {}

  struct Window {
    RmaMemory own;
    std::vector<uint64_t> addresses;  ///< of each rank's
    std::vector<uint32_t> rkeys;
  };
  /// It stands still before that barrier of its mesh, for ever.
  void stop_before(int barrier) { stops_before_ = barrier; }
  /// ncclCommWindowRegister.
  Task<Window*> register_window(uint64_t bytes);
  /// ncclAllGather with NCCL_CTA_POLICY_ZERO, in place: each rank's slice of `bytes`, from `offset`
  /// on in the window.
  Task<> all_gather(Window* window, uint64_t offset, uint64_t bytes);
  /// ncclAlltoAll, the same: block `rank` of `from` goes into block `own rank` of that rank's `to`.
  Task<> all_to_all(Window* from, Window* to, uint64_t offset, uint64_t bytes);
  /// ncclPutSignal to a peer, at the place that it has here; and ncclWaitSignal for one of its.
  Task<> put_signal(Window* window, uint64_t offset, uint64_t bytes, int peer);
  Task<> wait_signal(int peer);
  /// A READ, as GIN's get is one.
  Task<> get(Window* window, uint64_t offset, uint64_t bytes, int peer, uint8_t* to);
  /// Counters that peers have signalled.
  uint64_t signal_of(int peer) const;

 private:
  int size() const { return comm_.size(); }
  int own() const { return comm_.rank(); }
  Task<> connect();
  Task<> connect_ring();
  Task<> connect_mesh();
  Task<> connect_to(Link link, SocketAddress to);
  Task<> accept_from(Link link, ListeningSocket* listener, bool last);
  Task<std::vector<Bytes>> gather(Bytes slice, std::string what);
  Task<Window*> registered(uint64_t bytes);
  Task<> barrier(int tag);
  void send_signal(int peer);
  Task<> enter();
  Task<> finish();
  Task<> settled(std::string what);
  Bytes handle_of(const SocketAddress& at) const;
  SocketAddress listener_in(const Bytes& handle, int peer) const;

  RealRank& rank_;
  Communicator& comm_;
  RmaAdapter& adapter_;
  std::deque<Window> windows_;
  bool connected_ = false;
  size_t ring_sent_ = 0, ring_came_ = 0;
  int under_way_ = 0;
  int stops_before_ = -1;
  std::vector<uint64_t> expected_;  ///< signals of each peer that have been waited for
  struct Sent {
    int peer = 0;
    uint64_t number = 0, original = 0;
  };
  std::deque<Sent> signals_;
  std::vector<uint64_t> sent_;  ///< signals to each peer
};

}  // namespace understudy::nccl_rank
