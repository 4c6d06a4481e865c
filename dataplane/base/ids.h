// Identifiers of the transport as strong types: a PSN cannot be added to a QPN by mistake.
#pragma once

#include <compare>
#include <cstdint>

namespace understudy {

/// Packet sequence number: 24 bits, compared by signed distance (IBTA 9.7.1, rule A4).
class Psn {
 public:
  constexpr Psn() = default;
  explicit constexpr Psn(uint32_t v) : v_(v & kMask) {}
  constexpr uint32_t value() const { return v_; }
  constexpr Psn advance(uint32_t n) const { return Psn(v_ + n); }
  constexpr Psn next() const { return advance(1); }
  /// Signed distance from `o` to this, in [-2^23, 2^23): positive when this is ahead.
  constexpr int32_t distance_from(Psn o) const {
    return static_cast<int32_t>((v_ - o.v_) << 8) >> 8;
  }
  constexpr bool operator==(const Psn&) const = default;

  static constexpr uint32_t kMask = 0xffffff;

 private:
  uint32_t v_ = 0;
};

/// Queue pair number, 24 bits. 0 and 1 are special (SMI, GSI); ours start at kFirstQpn.
using Qpn = uint32_t;
inline constexpr Qpn kGsiQpn = 1;
inline constexpr uint32_t kGsiQkey = 0x80010000;  ///< Q_Key of every packet to or from QP1
inline constexpr Qpn kFirstQpn = 0x10;
inline constexpr Qpn kQpnMask = 0xffffff;
/// Local QPNs carry the shard in the bits from here up, so that lookup is an index (design rule 3).
inline constexpr unsigned kQpnShardShift = 18;

using Rkey = uint32_t;

/// Index of a node (real or emulated) in the configuration's node list.
using NodeId = uint32_t;
inline constexpr NodeId kNoNode = 0xffffffff;

}  // namespace understudy
