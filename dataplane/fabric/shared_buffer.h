// The buffer that the ports of one switch share: who may put a packet into it, and which ingress
// ports have their peers paused. Bytes only; the packets are the network's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/fabric/queue_settings.h"

namespace understudy {

/// What the packets of one ingress port and class hold.
struct IngressUse {
  uint64_t bytes = 0;  ///< in all
  uint64_t in_headroom = 0;
  uint64_t headroom = 0;  ///< limit
  bool pausing = false;   ///< its peer has been told to stop
};

class SharedBuffer {
 public:
  /// `pool`: bytes; 0: no limit.
  explicit SharedBuffer(uint64_t pool = 0) : pool_(pool) {}

  uint64_t pool() const { return pool_; }
  uint64_t used() const { return used_; }  ///< without headroom
  uint64_t peak() const { return peak_; }  ///< most that was ever used, headroom included

  /// alpha * (pool - used): how far a queue or an ingress port may grow.
  uint64_t threshold(double alpha) const {
    if (pool_ == 0) return UINT64_MAX / 2;
    if (used_ >= pool_) return 0;
    return static_cast<uint64_t>(std::min(alpha * static_cast<double>(pool_ - used_), 9e18));
  }

  /// How far an ingress port may grow before its peer is paused.
  uint64_t threshold(const PfcSettings& pfc) const {
    return pfc.xoff != 0 ? pfc.xoff : threshold(pfc.alpha);
  }

  /// A lossless packet has come in. False: its port's headroom is full, and it is lost.
  bool admit(IngressUse& use, const PfcSettings& pfc, uint64_t bytes) {
    const bool headroom = use.in_headroom > 0;
    if (headroom && use.in_headroom + bytes > use.headroom) return false;
    // The threshold is that of a buffer which holds the packet.
    if (!headroom) used_ += bytes;
    if (headroom || use.bytes + bytes > threshold(pfc)) {
      if (!headroom) {
        used_ -= bytes;
        if (bytes > use.headroom) return false;
      }
      use.in_headroom += bytes;
      headroom_used_ += bytes;
    }
    use.bytes += bytes;
    peak_ = std::max(peak_, used_ + headroom_used_);
    return true;
  }
  /// Whether the peer has to be told to stop now.
  static bool must_pause(const IngressUse& use) { return !use.pausing && use.in_headroom > 0; }
  /// Whether it may go on.
  bool may_resume(const IngressUse& use, const PfcSettings& pfc) const {
    if (!use.pausing || use.in_headroom > 0) return false;
    if (pfc.xoff != 0) return use.bytes < pfc.xon;
    return use.bytes < pfc.resume_floor || use.bytes + pfc.resume_offset <= threshold(pfc.alpha);
  }

  /// A lossy packet has come in for an egress queue of `queue` bytes. False: it is lost.
  bool admit_lossy(IngressUse& use, double egress_alpha, uint64_t queue, uint64_t bytes) {
    if (queue + bytes > threshold(egress_alpha) || (pool_ != 0 && used_ + bytes > pool_)) {
      return false;
    }
    used_ += bytes;
    use.bytes += bytes;
    peak_ = std::max(peak_, used_ + headroom_used_);
    return true;
  }

  /// A packet has left.
  void leave(IngressUse& use, uint64_t bytes) {
    use.bytes -= bytes;
    const uint64_t from_headroom = std::min(use.in_headroom, bytes);
    use.in_headroom -= from_headroom;
    headroom_used_ -= from_headroom;
    used_ -= bytes - from_headroom;
  }

 private:
  uint64_t pool_;
  uint64_t used_ = 0;
  uint64_t headroom_used_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace understudy
