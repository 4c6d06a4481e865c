// What carries flows, packet by packet (flow_traffic.h) or as rates (flow_model.h), as those see it
// who decide when flows start and hear how they go: ranks (collective/packet_level_ranks.h).
//
// Of what happens at one moment, flows come in first, then listeners wake, then flows start.
#pragma once

#include <cstdint>

#include "dataplane/base/units.h"

namespace understudy {

/// Hears of flows as they go, and of wake-ups, those of others too.
class FlowListener {
 public:
  virtual ~FlowListener() = default;
  virtual void on_received(uint32_t flow, Time now) = 0;      ///< whole, at its receiver
  virtual void on_acknowledged(uint32_t flow, Time now) = 0;  ///< whole, at its sender
  virtual void on_wake(uint32_t index, Time now) = 0;         ///< of wake_listener()
  /// Its sender has tried long enough, and sends nothing more: neither this flow nor what waits
  /// behind it. True: the listener has another way, and it is no flow that has given up; those of
  /// its connection are over.
  virtual bool on_given_up(uint32_t /*flow*/, Time /*now*/) { return false; }
};

class FlowCarrier {
 public:
  virtual ~FlowCarrier() = default;
  // Before the first event:
  /// `flow` waits for release() too.
  virtual void hold(uint32_t flow) = 0;
  /// It outlives this.
  virtual void listen(FlowListener& listener) = 0;

  /// A flow that was held starts at `at` (plus its own start), once it waits for nothing else.
  virtual void release(uint32_t flow, Time at) = 0;
  /// The listener wants to be woken; `index` < 2^29.
  virtual void wake_listener(Time at, uint32_t index) = 0;
};

}  // namespace understudy
