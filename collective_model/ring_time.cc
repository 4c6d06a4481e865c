#include "collective_model/ring_time.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

/// Time of `bytes` of payload in full packets.
Duration payload_time(uint64_t bytes, Rate rate, const WireCost& wire) {
  return rate.time_for(bytes * (wire.mtu + wire.overhead)) / wire.mtu;
}

}  // namespace

Duration modelled_time(const RingPlan& plan, uint32_t rank) {
  RingPlanConfig config = plan.config();
  config.real.clear();
  const Result<RingPlan> ideal = RingPlan::make(std::move(config));
  PlanRun run(plan.ranks());
  run.reset(*ideal, Time::zero());
  return run.completion(rank) - Time::zero();
}

Duration closed_form_time(const RingSchedule& schedule, const RingHop& hop, const WireCost& wire,
                          Duration step_cost) {
  const Duration alpha = hop.latency + step_cost;
  Duration total;
  for (uint32_t loop = 0; loop < schedule.loops(); ++loop) {
    const uint32_t chunk = schedule.chunk_bytes(loop);
    const Duration whole = payload_time(chunk, hop.rate, wire);
    const Duration slice = payload_time(schedule.first_slice(chunk), hop.rate, wire);
    total += std::max(whole, slice + alpha) * (schedule.steps() - 1) + whole + alpha;
  }
  return total;
}

}  // namespace understudy
