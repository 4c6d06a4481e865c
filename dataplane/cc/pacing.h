// The times at which a sender under congestion control may start its packets. Of flows
// (node/flow_traffic.h) and of queue pairs (engine/qp_control.h) alike.
#pragma once

#include <cstdint>

#include "dataplane/cc/controller.h"

namespace understudy {

/// From the start of one packet to the start of the next it is the time that the packet takes at
/// the controller's rate. Who starts late gains no claim to be early the next time.
class Pacing {
 public:
  /// The next packet may not start before.
  Time next() const { return next_; }
  void begin(Time now) { next_ = now; }
  /// A packet starts at `now`; `bytes` as the rate counts them. Gaps are cut to whole multiples of
  /// `resolution`; zero: exact.
  void started(Time now, uint32_t bytes, Controller& control, Duration resolution = Duration()) {
    last_ = now;
    bytes_ = bytes;
    control.on_sent(now, bytes);
    next_ = now + gap(control, resolution);
  }
  /// The controller may have changed its mind.
  void changed(const Controller& control, Duration resolution = Duration()) {
    if (bytes_ != 0 && control.rate_changes_gap()) next_ = last_ + gap(control, resolution);
  }

 private:
  Duration gap(const Controller& control, Duration resolution) const {
    const Duration exact = control.rate().time_for(bytes_);
    if (resolution.ps() == 0) return exact;
    return Duration::ps(exact.ps() - exact.ps() % resolution.ps());
  }

  Time last_;           ///< start of the last packet
  uint32_t bytes_ = 0;  ///< of it; 0: there was none
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
