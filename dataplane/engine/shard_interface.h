// What the loops (real time and virtual time) need of a shard.
#pragma once

#include <span>

#include "dataplane/base/units.h"
#include "dataplane/engine/state/io.h"

namespace understudy {

class EngineShard {
 public:
  virtual ~EngineShard() = default;
  /// Frames from the device, in order of arrival.
  virtual void rx(const RxBurst& burst) = 0;
  /// Runs everything due by `now` and writes what departs by then to the sink of its port.
  virtual void poll(Time now, std::span<TxSink* const> sinks) = 0;
  /// The same of a shard with one port.
  void poll(Time now, TxSink& sink) {
    TxSink* const only = &sink;
    poll(now, {&only, 1});
  }
  /// When poll() has something to do again; Time::never() when only new input can make work.
  virtual Time next_wake() const = 0;
};

}  // namespace understudy
