// Explicit congestion notification (rule A6): emulated receivers answer marked packets by CNPs,
// which wait here for their node's link.
#pragma once

#include <vector>

#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class CnpQueue {
 public:
  explicit CnpQueue(ShardState& state)
      : config_(state.config),
        pool_(state.pool),
        qps_(state.qps),
        ports_(state.ports),
        waiting_(state.config.nodes.nics().size()) {}

  /// A packet has come in for the queue pair in `slot`. True if it was marked, on the wire or in
  /// the fabric, and a CNP waits for it since then.
  bool note_mark(const Packet& packet, uint32_t slot, Time now) {
    return (packet.ce || marked(packet.tos)) && answer_mark(slot, now);
  }
  /// Queue pair whose CNP has waited longest among those of the node; kNoSlot if none does.
  uint32_t first(uint32_t node) const { return waiting_[node].first; }
  /// That CNP, in front of the node's link: there must be one, and room for a packet. The interval
  /// to the queue pair's next one counts from `now`.
  uint32_t take(uint32_t node, Time now);
  /// The queue pair in `slot` is removed, and its CNP with it.
  void remove(uint32_t slot);

 private:
  bool answer_mark(uint32_t slot, Time now);

  struct Fifo {
    uint32_t first = kNoSlot, last = kNoSlot;
  };

  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  RealPorts& ports_;
  std::vector<Fifo> waiting_;  ///< by position of the node; linked by QpRest::next_cnp
};

}  // namespace understudy
