// How packets enter and leave a shard: plain views in, a sink out. No device, no clock.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "dataplane/base/units.h"
#include "dataplane/engine/state/read_frame.h"

namespace understudy {

/// Frames received together. `at` is their hand-over time from the device; `uncertainty` is the
/// time since the previous poll of that port (0 when the device stamps arrivals itself): each frame
/// really arrived within [at - uncertainty, at].
struct RxBurst {
  Time at;
  Duration uncertainty;
  std::span<const std::span<const uint8_t>> frames;
  uint32_t port = 0;  ///< of the shard
  /// What another thread has read of these frames already; empty: nothing.
  std::span<const ReadFrame* const> read = {};
};

/// Where a shard writes frames that are due.
class TxSink {
 public:
  virtual ~TxSink() = default;
  /// Room for a frame of `bytes`, or null when the device takes no more now: the shard keeps the
  /// frame and tries again at its next poll.
  virtual uint8_t* reserve(uint32_t bytes) = 0;
  /// The same for a frame in which, behind the first `head` bytes, `zeros` bytes are zeros: these
  /// are there already, and `tail` bytes are behind them. A device that keeps its buffers need not
  /// write zeros again where they still are, so that such frames cost the same whatever their size.
  virtual uint8_t* reserve_zeros(uint32_t head, uint32_t zeros, uint32_t tail) {
    uint8_t* out = reserve(head + zeros + tail);
    if (out != nullptr) std::memset(out + head, 0, zeros);
    return out;
  }
  /// Whether the sink itself pads the payload of the frame reserved, and appends the ICRC, which is
  /// `crc` up to there: as finish_payload(), once the frame has been handed over.
  virtual bool finishes(uint8_t* payload, uint32_t bytes, uint32_t crc) {
    (void)payload, (void)bytes, (void)crc;
    return false;
  }
  /// How long before its time a frame may be handed over: the device keeps it until then.
  virtual Duration lead() const { return Duration(); }
  /// Hands the reserved frame over. `scheduled` is its modelled departure time.
  virtual void commit(uint32_t bytes, Time scheduled) = 0;
};

/// Bytes of a buffer that is used again and again: how many of them are zeros, from its start.
class ZerosKept {
 public:
  /// They are `wanted` from now on, and what is behind them is no longer known.
  void want(uint8_t* bytes, uint32_t wanted) {
    if (known_ < wanted) std::memset(bytes + known_, 0, wanted - known_);
    known_ = wanted;
  }
  /// Something else has been written there.
  void forget() { known_ = 0; }

 private:
  uint32_t known_ = 0;
};

}  // namespace understudy
