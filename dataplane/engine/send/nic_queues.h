// NICs of emulated nodes with one queue for all that leaves them, acknowledgements behind data: queue
// pairs hand packets over before their time, up to a number each (NicLimits::ahead). Other NICs have
// no queue: what goes next is chosen when the link is free (qp_scheduler.h).
#pragma once

#include <vector>

#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class NicQueues {
 public:
  explicit NicQueues(ShardState& state)
      : config_(state.config), pool_(state.pool), qps_(state.qps) {
    for (const NicLimits& nic : config_.limits) any_ = any_ || nic.acks_wait();
    if (!any_) return;
    nics_.resize(config_.nodes.nics().size());
    handed_.resize(config_.queue_pairs);
  }

  /// Whether the NIC at this position in the node table has a queue.
  bool at(uint32_t node) const { return any_ && config_.limits[node].acks_wait(); }
  /// The queue pair in `slot`, of such a NIC, may hand over packets that are no acknowledgements.
  bool takes(uint32_t slot) const { return !handed_[slot].full; }
  bool empty(uint32_t node) const { return nics_[node].first == kNoPacket; }
  uint32_t first(uint32_t node) const { return nics_[node].first; }
  uint32_t behind(uint32_t packet) { return pool_.links()[packet]; }

  /// Behind all that the NIC was handed.
  void push(uint32_t packet, uint64_t turn);
  /// Takes `packet` out, which is behind `before` or, if that is kNoPacket, the first: it goes onto
  /// the wire now. Gives the queue pair that may hand over packets again since then, or kNoSlot.
  uint32_t take(uint32_t packet, uint32_t before, Time now);
  /// The queue pair in `slot` is removed; what it has handed over still leaves.
  void remove(uint32_t slot) {
    if (any_) handed_[slot] = {};
  }

 private:
  struct Nic {
    uint32_t first = kNoPacket, last = kNoPacket;
  };
  struct Handed {
    uint16_t packets = 0;  ///< that wait in its NIC's queue
    bool full = false;     ///< they were too many, and are still
  };

  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  bool any_ = false;
  std::vector<Nic> nics_;       ///< by position in the node table
  std::vector<Handed> handed_;  ///< by slot
};

}  // namespace understudy
