// When flows start, and groups of them that are stopped and go on.
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

void FlowTraffic::start(Network& network) {
  network_ = &network;
  learn_ways();
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    if (flows_[i].waits_for == 0) start_by_clock(i, Time::zero() + specs_[i].start);
  }
}

/// `due`: by the clock of its group.
void FlowTraffic::start_by_clock(uint32_t flow, Time due) {
  const uint32_t group = specs_[flow].group;
  flows_[flow].due = due;
  flows_[flow].held = !groups_.runs(group);
  if (!flows_[flow].held) start_at(flow, groups_.when(group, due));
}

/// Its group may have been stopped since the time was set.
void FlowTraffic::on_start(uint32_t flow, Time now) {
  const uint32_t group = specs_[flow].group;
  if (group == kNoGroup) return begin(flow, now);
  const Time due = flows_[flow].due;
  if (groups_.runs(group) && groups_.when(group, due) <= now) return begin(flow, now);
  start_by_clock(flow, due);
}

void FlowTraffic::set_running(uint32_t group, bool running, Time now) {
  if (!groups_.set_running(group, running, now)) return;
  const FlowGroups::Range flows = groups_.flows(group);
  for (uint32_t i = flows.first; i < flows.end; ++i) {
    Sender& s = senders_[flows_[i].sender];
    s.stopped = !running;
    if (!running) continue;
    if (flows_[i].held) start_by_clock(i, flows_[i].due);
    if (s.control != nullptr) make_ready(flows_[i].sender, now);
  }
}

}  // namespace understudy
