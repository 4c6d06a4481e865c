// Senders that hear nothing: when they give up, and which links their packets did not come through.
#include <algorithm>

#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// What is ready counts its timeouts as if it were on its way: nobody knows that it is not.
void FlowTraffic::held(LinkId nic, Time now) {
  for (const ReadyList& list : nics_[nic].ready) {
    for (uint32_t sender = list.first; sender != kNone; sender = senders_[sender].next_ready) {
      Sender& s = senders_[sender];
      if (s.timing || s.control == nullptr) continue;
      if (s.in_flight == 0) s.heard = now;
      arm_timeout(sender, now);
    }
  }
}

/// It could send, but for its NIC's link.
bool FlowTraffic::is_held(uint32_t sender, Time now) const {
  const Sender& s = senders_[sender];
  return s.queued && may_send(s) && network_->is_closed(first_link(s.first), now);
}

bool FlowTraffic::has_tried_enough(uint32_t sender, Time now) const {
  const Sender& s = senders_[sender];
  if (s.timeouts < retries()) return false;
  if (settings_.retries) return true;
  return now > no_change_after_ && s.newest != kNone && !way_of(s.newest, now).open;
}

void FlowTraffic::give_up(uint32_t sender, Time now) {
  Sender& s = senders_[sender];
  s.stopped = s.gave_up = true;
  uint32_t oldest = s.newest;
  while (oldest != kNone && flows_[oldest].older != kNone) oldest = flows_[oldest].older;
  if (oldest == kNone) return;
  for (FlowListener* listener : listeners_) {
    if (listener->on_given_up(oldest, now)) return abandon(s);
  }
  given_up_.push_back(oldest);
}

/// Its flows are over, and so is its connection: what still comes of it is not heard.
void FlowTraffic::abandon(Sender& s) {
  for (uint32_t flow = s.newest; flow != kNone; flow = flows_[flow].older) {
    flows_[flow].running = flows_[flow].busy = false;
    groups_.note_end(specs_[flow].group);
  }
  s.newest = kNone;
  s.flows_left = 0;
  s.control.reset();
}

std::vector<uint32_t> FlowTraffic::stuck() const {
  if (!given_up_.empty()) return given_up_;
  std::vector<uint32_t> flows;
  for (uint32_t i = 0; i < flows_.size(); ++i) {
    if (flows_[i].running && groups_.runs(specs_[i].group)) flows.push_back(i);
  }
  return flows;
}

/// Link by link, as a packet would go now.
void FlowTraffic::follow(LinkId first, VertexId to, Way way, Time now, WayNow& found) const {
  size_t hops = 0;
  for (LinkId link = first; link != kNoLink; ++hops) {
    if (network_->is_closed(link, now)) found.closed.push_back(link);
    const VertexId at = graph_.link(link).to;
    if (at == to || hops > graph_.vertices().size()) return;
    link = way.has_links() ? way.take_link() : network_->routing().next(at, way);
  }
  found.open = false;  // a switch knows no way
}

FlowTraffic::WayNow FlowTraffic::way_of(uint32_t flow, Time now) const {
  const FlowSpec& spec = specs_[flow];
  const Sender& s = senders_[flows_[flow].sender];
  WayNow found;
  const size_t paths = std::max<size_t>(spec.spray.size(), flows_[flow].paths);
  for (size_t i = 0; i < paths; ++i) {
    const Departure d = departure_of(flow, i);
    follow(d.first, spec.to, d.way, now, found);
  }
  if (s.first_back != kNoLink) follow(s.first_back, spec.from, s.back, now, found);
  std::sort(found.closed.begin(), found.closed.end());
  found.closed.erase(std::unique(found.closed.begin(), found.closed.end()), found.closed.end());
  found.open = found.open && found.closed.empty();
  return found;
}

}  // namespace understudy
