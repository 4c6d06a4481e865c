// How packets enter and leave a shard: plain views in, a sink out. No device, no clock.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/base/units.h"

namespace understudy {

/// Frames received together. `at` is their hand-over time from the device; `uncertainty` is the
/// time since the previous poll of that port (0 when the device stamps arrivals itself): each frame
/// really arrived within [at - uncertainty, at].
struct RxBurst {
  Time at;
  Duration uncertainty;
  std::span<const std::span<const uint8_t>> frames;
  uint32_t port = 0;  ///< of the shard
};

/// Where a shard writes frames that are due.
class TxSink {
 public:
  virtual ~TxSink() = default;
  /// Room for a frame of `bytes`, or null when the device takes no more now: the shard keeps the
  /// frame and tries again at its next poll.
  virtual uint8_t* reserve(uint32_t bytes) = 0;
  /// How long before its time a frame may be handed over: the device keeps it until then.
  virtual Duration lead() const { return Duration(); }
  /// Hands the reserved frame over. `scheduled` is its modelled departure time.
  virtual void commit(uint32_t bytes, Time scheduled) = 0;
};

}  // namespace understudy
