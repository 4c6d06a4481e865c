// Congestion control of one queue pair: its rate controller, and what the shard keeps for it. Made
// by control, which owns it; the shard uses it from kAddQp until kRemoveQp is answered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "dataplane/cc/pacing.h"
#include "dataplane/engine/state/departure_log.h"

namespace understudy {

/// What the queue pairs of one user (a service, a client, a job) came to under their control.
struct ControlCounters {
  uint64_t queue_pairs = 0;
  uint64_t cnps = 0;      ///< that a rate controller has heard
  uint64_t cuts = 0;      ///< of a rate
  uint64_t rate_sum = 0;  ///< bit/s: of all queue pairs, each one's last rate
  Rate lowest = Rate::unlimited();

  void add(const ControlCounters& other) {
    queue_pairs += other.queue_pairs;
    cnps += other.cnps;
    cuts += other.cuts;
    rate_sum += other.rate_sum;
    note_lowest(other.lowest);
  }
  void note_lowest(Rate rate) {
    if (rate.is_unlimited()) return;
    lowest = lowest.is_unlimited() ? rate : std::min(lowest, rate);
  }
};

class QpControl {
 public:
  struct Setup {
    std::unique_ptr<Controller> controller;
    uint32_t user = 0;      ///< whose counters it adds to
    unsigned switches = 0;  ///< on the way to the peer
    uint32_t logged =
        0;  ///< packets whose departures are remembered; 0 for controllers that do not ask
  };
  explicit QpControl(Setup setup)
      : controller_(std::move(setup.controller)),
        log_(setup.logged),
        user_(setup.user),
        switches_(setup.switches) {
    counters_.queue_pairs = 1;
    note_rate();
  }

  uint32_t user() const { return user_; }
  /// Whether a data packet has left, and what its controller says now.
  bool started() const { return started_; }
  Rate rate() const { return controller_->rate(); }
  uint64_t window() const { return controller_->window(); }
  /// A data packet may not start before.
  Time next() const { return pacing_.next(); }
  /// From now on it would start one if the link let it.
  void ready(Time now) { pacing_.ready(now); }
  /// Whether the window lets the request packet with this PSN start.
  bool window_open(Psn next) const { return log_.in_flight(next) < controller_->window(); }
  bool slower_than(Rate line) const { return controller_->rate() < line; }
  Time deadline() const { return controller_->deadline(); }
  Alarm& pace_alarm() { return pace_alarm_; }
  Alarm& controller_alarm() { return controller_alarm_; }

  /// A data packet of `wire_bytes` starts: a request, or an answer to a READ or ATOMIC.
  void left(Time now, uint32_t wire_bytes) {
    if (!started_) controller_->start(now);
    started_ = true;
    pacing_.started(now, wire_bytes, *controller_, {});
    note_rate();
  }
  DepartureLog& log() { return log_; }

  /// The peer has acknowledged all before `una`.
  void acknowledged(Time now, Psn una) {
    const auto heard = log_.acknowledge(una);
    if (!heard.left) return;
    AckHeard ack;
    ack.at = now;
    ack.rtt = now - *heard.left;
    ack.acked = log_.acked();
    ack.sent = log_.sent();
    ack.newly_acked = heard.bytes;
    ack.switches = switches_;
    controller_->on_ack(ack);
    changed();
  }
  void on_cnp(Time now) {
    ++counters_.cnps;
    controller_->on_cnp(now);
    changed();
  }
  /// Runs the controller's timers that are due.
  void on_timer(Time now) {
    while (controller_->deadline() <= now) controller_->on_timer(now);
    changed();
  }

  ControlCounters counters() const {
    ControlCounters c = counters_;
    c.rate_sum = controller_->rate().bps();
    return c;
  }

 private:
  void changed() {
    pacing_.changed(*controller_, {});
    note_rate();
  }
  void note_rate() {
    const Rate now = controller_->rate();
    if (!now.is_unlimited() && now < rate_) ++counters_.cuts;
    rate_ = now;
    counters_.note_lowest(now);
  }

  std::unique_ptr<Controller> controller_;
  Pacing pacing_;
  DepartureLog log_;
  Alarm pace_alarm_, controller_alarm_;
  uint32_t user_;
  unsigned switches_;
  bool started_ = false;
  Rate rate_;  ///< when it was looked at last
  ControlCounters counters_;
};

}  // namespace understudy
