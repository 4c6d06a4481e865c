#include "dataplane/engine/network/switched_lane.h"

#include <utility>
#include <vector>

namespace understudy {
namespace {

std::vector<RealEnd> real_ends(const RealPorts& ports) {
  std::vector<RealEnd> ends;
  for (const RealPort& port : ports) ends.push_back({port.nic, port.physical, port.pfc.on()});
  return ends;
}

}  // namespace

SwitchedLane::SwitchedLane(ShardState& state, QpScheduler& scheduler, UplinkScheduler& uplinks,
                           FabricUser& user)
    : pool_(state.pool),
      events_(state.events),
      ports_(state.ports),
      scheduler_(scheduler),
      fabric_(state.config.network, real_ends(state.ports), state.pool, user,
              state.config.background) {
  scheduler.number_turns_by(fabric_);
  uplinks.send_into(fabric_);
}

/// kLinkArrive: a packet of a real node is in front of its link.
void SwitchedLane::on_event(ShardEvent event) {
  const uint32_t packet = event.index;
  if (fabric_.waiting() >= pool_.most_in_one_queue()) {
    ports_.counters_of(pool_[packet].real).drop(Drop::kQueueFull);
    return pool_.release(packet);
  }
  fabric_.enter(packet, event.time);
}

void SwitchedLane::offer(uint32_t slot, Time now) {
  const bool acks = scheduler_.line_up(slot, kAckLine, now);
  const bool rest = scheduler_.line_up(slot, 0, now);
  if (acks || rest) fabric_.ready(scheduler_.node_of(slot), now);
  scheduler_.arm_timer(slot);
}

void SwitchedLane::fit(ShardSnapshot& out) const {
  out.up.clear();
  out.down.clear();
  out.network.resize(fabric_.links());
}

void SwitchedLane::snapshot(ShardSnapshot& out, Time now) const {
  for (LinkId link = 0; link < out.network.size(); ++link) {
    out.network[link] = network()->counters_at(link, now);
  }
}

void drop_lost(ShardState& state, uint32_t packet, PacketLoss why) {
  state.ports.counters_of(state.pool[packet].real).drop(drop_of(why));
  state.pool.release(packet);
}

}  // namespace understudy
