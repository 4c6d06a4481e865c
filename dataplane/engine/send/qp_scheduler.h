// Who sends next: in front of each emulated node's own link stand its queue pairs, in turn, and
// its finished frames (datagrams, echoes). Nothing here knows a link's state: whoever has an idle
// one asks for the next packet.
#pragma once

#include <vector>

#include "dataplane/engine/send/cnp_queue.h"
#include "dataplane/engine/send/nic_queues.h"
#include "dataplane/engine/send/qp_pacing.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

/// Queue pairs of a node that have something to send, in turn: an intrusive FIFO of slots.
struct ReadyLine {
  uint32_t first = kNoSlot, last = kNoSlot;
  uint32_t sending = kNoSlot;  ///< sent last: stands in line again when the link is free
  bool starved = false;        ///< waits for a packet of the pool ...
  uint32_t next = 0;           ///< ... and the line behind it there
};

class QpScheduler {
 public:
  /// What a node sends next.
  struct Next {
    uint32_t packet = kNoPacket;
    uint32_t slot = kNoSlot;  ///< the queue pair that may have more behind it; kNoSlot: none
  };

  QpScheduler(ShardState& state, QpPacing& pacing, CnpQueue& cnps);

  /// Puts the queue pair in `slot` into this line if it has something that may start. True if it
  /// stands there, or its NIC has a queue (nic_queues.h) in which something waits.
  bool line_up(uint32_t slot, uint32_t line, Time now) {
    if (queues_.at(qps_[slot].node)) return hand_over(slot, line, now);
    const bool queued = qps_[slot].queued[line];
    if (!queued && pacing_.try_start(slot, line, now)) append(slot, line, now);
    return qps_[slot].queued[line];
  }
  /// Position of the queue pair's node.
  uint32_t node_of(uint32_t slot) const { return qps_[slot].node; }
  /// A finished frame goes out as if it were sent by a queue pair of its own: in turn with the
  /// others, whatever number of them a peer makes the node send. False if there are more than a
  /// share of the free packets already: the frame is lost, and the caller's.
  bool add_finished(uint32_t packet, Time now);
  /// Takes what the node sends next in this class: a CNP, an ACK, or what is next in line.
  Next take(uint32_t node, uint32_t cls, Time now);
  /// Whether the node has more to send in this class, or may have it.
  bool has_more(uint32_t node, uint32_t cls) const {
    if (queues_.at(node) && !queues_.empty(node)) return true;
    const ReadyLine& line = lines_[node * kLines + cls];
    if (line.first != kNoSlot || line.sending != kNoSlot) return true;
    if (cls != config_.control_class()) return false;
    return lines_[node * kLines + kAckLine].first != kNoSlot || cnps_.first(node) != kNoSlot;
  }
  /// Sets an event for the queue pair's retransmission or RNR timer, unless there is an earlier
  /// one.
  void arm_timer(uint32_t slot) {
    QpSlot& q = qps_[slot];
    const Time deadline = q.qp->deadline();
    if (deadline >= q.timer || qps_.is_paused(q.node)) return;
    q.timer = deadline;
    events_.push(deadline, EventKind::kTimer, slot);
  }
  /// The queue pair in `slot` is removed.
  void remove(uint32_t slot);

  /// Lines that found no free packet, in turn: each, `line % kLines` of node `line / kLines`, is to
  /// be asked again as long as there is a packet. Who gets one and finds none again is behind all
  /// others, so that none takes all that others have freed.
  bool is_starved() const { return first_starved_ != kNoLine; }
  bool can_feed() const { return is_starved() && pool_.available(PacketSide::kOutbound) != 0; }
  uint32_t take_starved();

  // Of NICs with a queue:
  /// A packet for the queue pair in `slot` is being handled (kNoSlot: no more): its acknowledgement
  /// stands before what its program posts then.
  void note_delivery(uint32_t slot) { delivery_ = slot; }
  const NicQueues& queues() const { return queues_; }
  /// What stands in line for want of a free packet, or tells of marks, goes into the queue.
  void fill_queue(uint32_t node, Time now);
  uint32_t behind(uint32_t packet) { return queues_.behind(packet); }
  /// `packet` of its node's queue, behind `before` (kNoPacket: the first), goes onto the wire.
  uint32_t take_queued(uint32_t packet, uint32_t before, Time now);

  // For choosing among several uplinks (uplink_scheduler.h):
  ReadyLine& line(uint32_t node, uint32_t line) { return lines_[node * kLines + line]; }
  /// From here come the numbers of those that line up behind other senders of a network.
  void number_turns_by(SwitchedFabric& fabric) { turns_ = &fabric; }
  void append(uint32_t slot, uint32_t line, Time now);
  /// The link is free: who sent last is behind all that wait.
  void requeue(uint32_t node, uint32_t line, Time now);
  /// Notes that the line found no packet; it keeps its queue pairs.
  void starve(uint32_t node, uint32_t line);
  /// The next packet of a queue pair that has one, in front of its node's link.
  uint32_t make_packet(uint32_t slot, uint32_t line, Time now);
  uint32_t first_finished(uint32_t node) const { return finished_[node].first; }
  uint32_t take_finished(uint32_t node, Time now);
  /// The node's oldest CNP; kNoPacket without one, or without a free packet.
  uint32_t take_cnp(uint32_t node, Time now);

 private:
  static constexpr uint32_t kNoLine = 0xffffffff;
  /// Finished frames of a node: an intrusive FIFO of packets. They stand in line under one slot,
  /// QpTable::finished_slot().
  struct Finished {
    uint32_t first = kNoPacket, last = kNoPacket;
    uint32_t waiting = 0;
  };

  Next take_from_line(uint32_t node, uint32_t line, Time now);
  bool hand_over(uint32_t slot, uint32_t line, Time now);
  void hand_over_line(uint32_t node, uint32_t line, Time now);
  void hand_over_more(uint32_t slot, uint32_t line, Time now);
  void push_queued(uint32_t packet);

  const ShardConfig& config_;
  PacketPool& pool_;
  EventQueue& events_;
  QpTable& qps_;
  QpPacing& pacing_;
  CnpQueue& cnps_;
  NicQueues queues_;
  uint32_t delivery_ = kNoSlot;
  SwitchedFabric* turns_ = nullptr;  ///< null: nobody compares turns
  BigArray<ReadyLine> lines_;        ///< [node * kLines + line]
  std::vector<Finished> finished_;   ///< by position in the node table
  uint32_t first_starved_ = kNoLine, last_starved_ = kNoLine;
};

}  // namespace understudy
