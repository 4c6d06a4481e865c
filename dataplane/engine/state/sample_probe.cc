#include "dataplane/engine/state/sample_probe.h"

#include "dataplane/base/assert.h"

namespace understudy {

void SampleProbe::on_wake(Time now, uint64_t) {
  DEBUG_ASSERT_INVARIANT(size() <= kMost);
  at = now;
  for (Link& link : links) {
    link.queued = network_->queued_bytes(link.link);
    link.sent = network_->sent_bits(link.link, now);
    link.used = rates_ == nullptr ? 0 : rates_->rates().used(link.link);
  }
  for (Flow& flow : flows) copy(flow);
  for (QueuePair& pair : queue_pairs) {
    pair.sends = pair.control->started();
    if (!pair.sends) continue;
    pair.rate = pair.control->rate();
    pair.window = pair.control->window();
  }
}

void SampleProbe::copy(Flow& flow) const {
  if (packets_ != nullptr) {
    const FlowResult& result = packets_->results()[flow.flow];
    flow.started = !result.start.is_never();
    flow.ended = !result.acknowledged.is_never();
    flow.delivered = result.delivered;
    flow.rate = packets_->rate(flow.flow);
    flow.window = packets_->window(flow.flow);
  } else if (rates_ != nullptr) {
    const FlowTimes& times = rates_->times()[flow.flow];
    flow.started = !times.start.is_never();
    flow.ended = !times.received.is_never();
    flow.rate = rates_->rate(flow.flow);
  }
}

}  // namespace understudy
