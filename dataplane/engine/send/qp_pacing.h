// Queue pairs under congestion control: which of them may send, when the others are asked again,
// and what their rate controllers are told.
#pragma once

#include <vector>

#include "dataplane/engine/state/commands.h"
#include "dataplane/engine/state/shard_state.h"

namespace understudy {

class QpPacing {
 public:
  explicit QpPacing(ShardState& state)
      : config_(state.config),
        events_(state.events),
        qps_(state.qps),
        ports_(state.ports),
        users_(state.config.control_users) {}

  /// What a line of queue pairs sends.
  TrafficKind kind_of(uint32_t line) const {
    if (line == kAckLine) return TrafficKind::kAcks;
    if (!config_.separate_control) return TrafficKind::kRequests;
    return line == 0 ? TrafficKind::kData : TrafficKind::kControl;
  }
  /// Whether the queue pair in `slot` has a packet for this line that may start at `now`. Where
  /// only its pacing forbids it, an event is set for the time when that allows it. ACKs and NAKs
  /// are never held back.
  bool try_start(uint32_t slot, uint32_t line, Time now);
  /// A packet of the queue pair in `slot` starts.
  void note_start(const Packet& packet, uint32_t slot, Time now) {
    if (QpControl* control = qps_[slot].control; control != nullptr) {
      note_paced_start(*control, packet, slot, now);
    }
  }
  /// A packet of its peer has been handled, which may have acknowledged something.
  void note_answer(uint32_t slot, Time now) {
    const QpSlot& q = qps_[slot];
    if (q.control == nullptr) return;
    q.control->acknowledged(now, q.qp->unacknowledged());
    set_controller_alarm(slot);
  }
  // Each of these returns whether the queue pair may send more since then.
  bool on_cnp(uint32_t slot, Time now);
  bool on_pace_alarm(uint32_t slot, Time now);
  bool on_controller_alarm(uint32_t slot, Time now);
  /// The queue pair in `slot` is removed; what it counted stays.
  void remove(uint32_t slot);

  size_t users() const { return users_.size(); }
  /// Counters of all users, with those of the queue pairs that are there; `out` has users().
  void snapshot(std::vector<ControlCounters>& out) const;

 private:
  bool hands_ahead(uint32_t node) const {
    return !config_.limits.empty() && config_.limits[node].acks_wait();
  }
  void note_paced_start(QpControl& control, const Packet& packet, uint32_t slot, Time now);
  void set_controller_alarm(uint32_t slot);

  const ShardConfig& config_;
  EventQueue& events_;
  QpTable& qps_;
  RealPorts& ports_;
  std::vector<ControlCounters> users_;  ///< of queue pairs that were removed
};

}  // namespace understudy
