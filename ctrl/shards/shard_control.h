// Control's hand on one shard: owns queue pairs, regions and their memory, and speaks the command
// language. One thread at a time.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/slab.h"
#include "dataplane/base/zero_memory.h"
#include "dataplane/engine/shard.h"

namespace understudy {

/// Memory that emulated nodes expose.
struct ExposedRegion {
  uint32_t index = 0;
  uint64_t va = 0;
  Rkey rkey = 0;
  uint8_t* bytes = nullptr;  ///< null when contents are discarded
};

class ShardControl {
 public:
  explicit ShardControl(Shard& shard) : shard_(shard) {}

  Shard& shard() { return shard_; }

  /// A QPN that no queue pair of this shard has, or 0 when the table is full. Used ones come back
  /// only when there is no fresh one, so that captures can tell connections apart.
  Qpn take_qpn();
  /// Gives back one for which no queue pair was made.
  void return_qpn(Qpn qpn) { free_qps_.push_back(qpn); }
  /// Creates a queue pair and hands it to the shard. `config.qpn` comes from take_qpn().
  /// `prepare` sets it up before the shard sees it; may be empty. `control` steers what it sends;
  /// may be null. `needs_small`: where no payload is needed, that of messages of one packet is.
  Qp& add_qp(const QpConfig& config, Endpoint& endpoint, bool needs_payload,
             const std::function<void(Qp&)>& prepare = {},
             std::unique_ptr<QpControl> control = nullptr, bool needs_small = false);
  /// The same for a UD queue pair.
  void add_datagram_qp(const DatagramQp& qp);
  /// Exposes `bytes` of memory of `node`.
  Result<ExposedRegion> add_region(NodeId node, uint64_t bytes, uint8_t access, RegionKind kind);
  /// Takes a queue pair away; its memory is freed once the shard has let go.
  void remove_qp(Qpn qpn, std::function<void()> then = {});
  void remove_region(uint32_t index);
  /// What it has and has not taken away.
  size_t queue_pairs() const { return qps_.size(); }
  size_t memory_regions() const { return next_region_ - free_regions_.size(); }
  /// How many connections with a queue pair and a region each it still has room for.
  size_t connections_left() const;
  /// Changes a queue pair's state; without effect where that is not allowed.
  void modify_qp(Qpn qpn, QpState state);

  /// At change.at: one link of the network, or, without one in `change`, all of `node`.
  void set_link(NodeId node, const RateChange& change);
  void set_traffic(uint32_t group, bool running, Time effective);
  /// Sends a datagram from QP1 of `node`.
  void send_datagram(NodeId node, Datagram datagram);
  /// Lets `node` find the MAC of the real NIC at `remote`; `then` runs in poll() once it is known.
  void reach(NodeId node, const IpAddress& local, const IpAddress& remote,
             std::function<void()> then);
  void wake(Endpoint& endpoint, uint64_t cookie);
  /// Lets the shard forget wake-ups of endpoints whose queue pairs were removed; `then` runs in
  /// poll() once nothing of the shard knows of them any more.
  void forget(std::vector<const Endpoint*> endpoints, std::function<void()> then);
  /// Asks for counters; `then` runs in poll() once they are there.
  void snapshot(ShardSnapshot& out, std::function<void()> then);
  /// What queue pairs to this address of a real node, and others to its port, have counted: cheap.
  void count_rc(const IpAddress& real, std::function<void(const RcCounters&)> then);

  /// Looks for a deadlock in the shard's network, which it has; `then` runs in poll() once that is
  /// done, and `search` outlives it.
  void find_deadlock(DeadlockSearch& search, std::function<void()> then);
  /// How the flows of the shard's network fare, into `out`, which outlives it.
  void look_at_flows(FlowsLook& out, std::function<void()> then);
  /// Wakes it at `effective`, at once if that has passed; `then` runs in poll() once that is done.
  void wake(Endpoint& endpoint, Time effective, std::function<void()> then);

  /// Takes the shard's replies and runs what waited for them. Returns commands still unanswered.
  size_t poll();

 private:
  using Then = std::function<void(ReplyStatus)>;
  struct Sought {  ///< a real NIC whose MAC is not known yet
    NodeId node = kNoNode;
    std::shared_ptr<const Datagram> ends;
    std::function<void()> then;
  };

  uint64_t submit(Command command, Then then = {});
  void submit(Sought sought);

  Shard& shard_;
  uint64_t sequence_ = 0;
  std::unordered_map<uint64_t, Then> waiting_;
  std::vector<Sought> sought_;  ///< to be asked for again
  Slab<Qp> qp_memory_;
  struct Owned {
    Slab<Qp>::Pointer qp;
    std::unique_ptr<DatagramQp> datagrams;
    std::unique_ptr<QpControl> control;
  };
  std::unordered_map<Qpn, Owned> qps_;
  uint32_t next_qp_ = 0;
  std::deque<Qpn> free_qps_;  ///< longest unused first: a QPN rests before it returns
  std::unordered_map<uint32_t, ZeroMemory> memory_;
  uint32_t next_region_ = 0;
  std::deque<uint32_t> free_regions_;
  uint64_t next_va_ = uint64_t{1} << 32;  ///< above what a 32-bit slip could hit
};

}  // namespace understudy
