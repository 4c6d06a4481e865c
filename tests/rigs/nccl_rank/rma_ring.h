// The reference rank's ring of net_ib's connections for one-sided operations, and what goes over it:
// handles and barriers of meshes, addresses and keys of memory (docs/nccl 3.16; source of 2.29.7 and
// 2.30.7: transport/net_ib/gin.cc). It does not connect to itself, as NCCL does.
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

/// What makes a rank's queue pairs for one-sided operations, and posts on them: of one ring, of one
/// mesh, or both.
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
  /// Adds `value`; what was there before goes to `original`.
  virtual void signal(int peer, uint64_t value, uint64_t* original, uint64_t address,
                      uint32_t rkey) = 0;
  virtual void get(int peer, uint8_t* to, uint64_t bytes, uint64_t address, uint32_t rkey) = 0;
  virtual size_t posted() const = 0;
  virtual size_t done() const = 0;
  virtual bool failed() const = 0;
};

/// A rank's memory that all have registered, as it knows it.
struct RmaWindow {
  RmaMemory own;
  std::vector<uint64_t> addresses;  ///< of each rank's
  std::vector<uint32_t> rkeys;
};

class RmaRing {
 public:
  /// All outlive this.
  RmaRing(RealRank& rank, Communicator& comm, RmaAdapter& adapter)
      : rank_(rank), comm_(comm), adapter_(adapter) {}

  int size() const { return comm_.size(); }
  int own() const { return comm_.rank(); }
  RmaAdapter& adapter() { return adapter_; }
  /// ncclGinIbConnect, after the all-gather of how many NICs there are.
  Task<> connect();
  /// ncclRmaIbProxyCreateContext: all meshes at one listener, one after the other. It stands still
  /// before that barrier of the first one, for ever.
  Task<> connect_meshes(std::vector<RmaAdapter*> meshes, int stops_before = -1);
  /// ncclGinIbConnect up to 2.29: ring and mesh at one listener; in 2.29.7 then each of `others` with
  /// its mesh, at the same.
  struct Other {
    RmaRing* ring = nullptr;
    RmaAdapter* mesh = nullptr;
  };
  Task<> connect_at_once(RmaAdapter* mesh, std::vector<Other> others = {}, int stops_before = -1);
  Task<std::vector<Bytes>> gather(Bytes slice, std::string what);
  /// ncclRmaIbProxyRegMrSym.
  Task<RmaWindow*> registered(RmaMemory memory);
  std::deque<RmaWindow>& windows() { return windows_; }

 private:
  Task<std::vector<Bytes>> exchange_handles(ListeningSocket* listener);
  Task<> connect_ring(ListeningSocket* listener, const std::vector<Bytes>* handles, bool last);
  struct Meshes {
    std::vector<RmaAdapter*> adapters;
    ListeningSocket* listener = nullptr;
    std::vector<Bytes> handles;
    int stops_before = -1;
    bool more = false;  ///< connections come there after these
  };
  Task<> make(Meshes meshes);
  Task<> connect_to(RmaAdapter* adapter, Link link, SocketAddress to);
  Task<> accept_from(RmaAdapter* adapter, Link link, ListeningSocket* listener, bool last);
  Bytes handle_of(const SocketAddress& at) const;
  SocketAddress listener_in(const Bytes& handle, int peer) const;

  RealRank& rank_;
  Communicator& comm_;
  RmaAdapter& adapter_;
  std::deque<RmaWindow> windows_;
  size_t ring_sent_ = 0, ring_came_ = 0;
  int under_way_ = 0;
};

}  // namespace understudy::nccl_rank
