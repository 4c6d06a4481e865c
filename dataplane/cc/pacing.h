// The times at which a sender under congestion control may start its packets. Of flows
// (node/flow_traffic.h) and of queue pairs (engine/state/qp_control.h) alike.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/cc/controller.h"

namespace understudy {

/// From the start of one packet to the start of the next it is the time that the packet takes at
/// the controller's rate. A sender that may start but has to wait for others of its link makes up
/// for that with its next ones, so that it keeps its rate: 10 us are 0.1 % of 10 ms. Who is later
/// than that, or had nothing to send, gains no claim to be early the next time.
class Pacing {
 public:
  struct Rules {
    Duration resolution;  ///< gaps are cut to whole multiples of it; zero: exact
    Duration catch_up = Duration::us(10);
  };

  /// The next packet may not start before.
  Time next() const { return next_; }
  void begin(Time now) { next_ = now; }
  /// From now on the sender would start its next packet if its link let it.
  void ready(Time now) { due_ = now == started_ ? next_ : now; }
  /// A packet starts at `now`; `bytes` as the rate counts them.
  void started(Time now, uint32_t bytes, Controller& control, const Rules& rules) {
    const bool waited = due_ < now;
    last_ = waited ? std::max({next_, due_, now - rules.catch_up}) : now;
    started_ = now;
    due_ = Time::never();
    bytes_ = bytes;
    control.on_sent(now, bytes);
    next_ = last_ + gap(control, rules);
  }
  /// The controller may have changed its mind.
  void changed(const Controller& control, const Rules& rules) {
    if (bytes_ != 0 && control.rate_changes_gap()) next_ = last_ + gap(control, rules);
  }

 private:
  Duration gap(const Controller& control, const Rules& rules) const {
    const Duration exact = control.rate().time_for(bytes_);
    if (rules.resolution.ps() == 0) return exact;
    return Duration::ps(exact.ps() - exact.ps() % rules.resolution.ps());
  }

  Time last_;  ///< when the last packet started, or would have started if others had let it
  Time started_ = Time::never();
  Time due_ = Time::never();  ///< when the next one could start but for others
  uint32_t bytes_ = 0;        ///< of the last one; 0: there was none
  Time next_;
};

/// A wake-up that is on its way; later ones need not be asked for.
class Alarm {
 public:
  /// Whether a wake-up at `at` has to be asked for.
  bool set(Time at) {
    if (at_ <= at) return false;
    at_ = at;
    return true;
  }
  /// One that was asked for has come.
  void rung(Time now) {
    if (at_ == now) at_ = Time::never();
  }

 private:
  Time at_ = Time::never();
};

}  // namespace understudy
