// What keeps packets from a wire, or loses them on it: outages, losses at random, and a NIC at one
// of its ends that stands still.
#pragma once

#include <cstdint>
#include <optional>

#include "dataplane/base/units.h"
#include "dataplane/fabric/graph.h"
#include "dataplane/fabric/keyed_draw.h"

namespace understudy {

enum class PacketLoss : uint8_t {
  kBuffer,    ///< a lossy queue had no room
  kHeadroom,  ///< a lossless class was overrun
  kLink,      ///< the link's own loss
  kOutage,    ///< the link went down under it, or was taken out of the routes while it waited
  kNoRoute,   ///< no link that is up leads to its destination
  kWatchdog,  ///< its queue is paused by a storm
};
inline constexpr size_t kPacketLosses = 6;

class WireFaults {
 public:
  /// No packet may enter. `from_nic`: the wire begins at a NIC.
  bool holds(bool from_nic) const { return is_down() || (nic_paused_ && from_nic); }
  /// The link, or a switch at one of its ends.
  bool is_down() const { return down_ || from_dead_ || to_dead_; }
  /// Nothing will come through any more, unless that changes.
  bool is_closed() const { return is_down() || nic_paused_ || loss_ >= 1; }
  void set_loss(double loss) { loss_ = loss; }
  /// The next packet that comes out has this number in draws.
  void count_from(uint64_t number) { came_ = number; }

  /// An outage cuts the packet off that is being sent. Its tail comes out at `sent_tail`; never():
  /// there is none. What is all on the way comes in.
  void change(const RateChange& change, Time sent_tail) {
    loss_ = change.loss.value_or(loss_);
    nic_paused_ = change.paused.value_or(nic_paused_);
    const bool was_down = is_down();
    down_ = change.down.value_or(down_);
    from_dead_ = change.from_dead.value_or(from_dead_);
    to_dead_ = change.to_dead.value_or(to_dead_);
    if (is_down() && !was_down && !sent_tail.is_never()) cut_ = sent_tail;
  }
  /// Why the next packet that comes out is lost there; its tail does at `tail`. `to_nic`: the wire
  /// ends at a NIC. `seed`, `link` and `cls` are as a draw wants them.
  std::optional<PacketLoss> lost(Time tail, bool to_nic, uint64_t seed, LinkId link, unsigned cls) {
    const uint64_t number = came_++;
    if (tail == cut_ || (nic_paused_ && to_nic) || to_dead_) return PacketLoss::kOutage;
    if (loss_ > 0 && keyed_draw(seed, DrawKind::kLoss, link, cls, number, loss_)) {
      return PacketLoss::kLink;
    }
    return std::nullopt;
  }

 private:
  double loss_ = 0;           ///< probability of a packet
  uint64_t came_ = 0;         ///< packets that have come out
  Time cut_ = Time::never();  ///< when the tail of the one comes out that an outage has cut off
  bool down_ = false;
  bool from_dead_ = false, to_dead_ = false;  ///< the switch at this end is down
  bool nic_paused_ = false;                   ///< the NIC at one of its ends stands still
};

}  // namespace understudy
