// What programs of emulated nodes post reaches the queue pair when it has crossed PCIe to their NIC
// (base/nic_limits.h), in order.
#pragma once

#include <vector>

#include "dataplane/engine/state/reused_slots.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class HeldPosts {
 public:
  explicit HeldPosts(ShardState& state);

  /// How long what is posted to the queue pair in `slot` is held. A program that hears of messages
  /// at once, though its NIC takes a while to tell, answers that much later.
  Duration time(uint32_t slot) const {
    if (limits_.empty()) return Duration();
    const NicLimits& nic = limits_[qps_[slot].node];
    return nic.lead + (qps_.rest(slot).endpoint->hears_late() ? Duration() : nic.tail);
  }
  /// False: the queue pair's send queue would be full.
  bool hold(uint32_t slot, const WorkRequest& request, Time until);
  /// kPost: gives the slot of the queue pair that got it, or kNoSlot if that is gone, or takes none
  /// any more: then its owner hears that it was flushed.
  uint32_t on_due(uint32_t index, Time now);

 private:
  struct Held {
    WorkRequest request;
    uint32_t slot = 0, generation = 0;
  };
  const std::vector<NicLimits>& limits_;  ///< by node; empty: none holds anything
  EventQueue& events_;
  QpTable& qps_;
  ReusedSlots<Held> held_;
  std::vector<uint32_t> waiting_;  ///< by slot
};

}  // namespace understudy
