#include "dataplane/engine/network/network_side.h"

namespace understudy {

NetworkSide::NetworkSide(ShardState& state, QpScheduler& scheduler, UplinkScheduler& uplinks,
                         Egress& egress, FabricUser& user)
    : config_(state.config), pool_(state.pool), ports_(state.ports), scheduler_(scheduler) {
  if (config_.network == nullptr) {
    two_links_ = std::make_unique<TwoLinks>(state, scheduler, egress);
  } else {
    switched_ = std::make_unique<SwitchedLane>(state, scheduler, uplinks, user);
  }
}

void NetworkSide::send_finished(uint32_t packet, Time now) {
  const uint32_t node = pool_[packet].node;
  if (scheduler_.add_finished(packet, now)) return ready(node, 0, now);
  on([&](auto& lane) { lane.note_dropped(node); });
  ports_.counters_of(pool_[packet].real).drop(Drop::kQueueFull);
  pool_.release(packet);
}

void NetworkSide::feed_starved(Time now) {
  while (scheduler_.can_feed()) {
    const uint32_t list = scheduler_.take_starved();
    const uint32_t node = list / kLines, line = list % kLines;
    ready(node, line == kAckLine ? config_.control_class() : line, now);
  }
}

}  // namespace understudy
