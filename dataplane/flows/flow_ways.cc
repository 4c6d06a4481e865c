// The ways that flows' packets take: given with the flow, or by what the network's routing chooses.
#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/fabric/routes.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {

void FlowTraffic::learn_ways() {
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    const FlowSpec& spec = specs_[i];
    if (!spec.path.empty()) continue;
    Routing& routing = network_->routing();
    routing.learn(spec.to);
    if (spec.back.empty()) routing.learn(spec.from);
    if (spec.most_paths == 1) continue;
    ASSERT_INVARIANT(spec.most_paths <= UINT8_MAX);
    count_paths(i);
    flows_[i].sprays = flows_[i].paths > 1;
  }
}

/// At least one: if there is none, the switch says so that cannot go on.
void FlowTraffic::count_paths(uint32_t flow) {
  const FlowSpec& spec = specs_[flow];
  const uint64_t paths = network_->routing().paths(spec.from, spec.to);
  flows_[flow].paths =
      static_cast<uint8_t>(std::clamp<uint64_t>(paths, 1, uint64_t{spec.most_paths}));
}

/// How acknowledgements of the flow's sender leave their NIC.
void FlowTraffic::choose_back(uint32_t flow) {
  const FlowSpec& spec = specs_[flow];
  Sender& s = senders_[flows_[flow].sender];
  s.back = Way::by_hash(spec.from, flow_hash(spec.to, spec.from, spec.number));
  s.first_back = network_->routing().next(spec.to, s.back);
}

/// Whoever has a choice of cables chooses again. Packets that are on their way ask each switch.
void FlowTraffic::rerouted(Time now) {
  for (uint32_t i = 0; i < specs_.size(); ++i) {
    const Sender& s = senders_[flows_[i].sender];
    if (flows_[i].sprays && specs_[i].path.empty()) count_paths(i);
    if (s.control != nullptr && !s.back.has_links()) choose_back(i);
  }
  std::vector<uint32_t> ready;
  for (LinkId link = 0; link < nics_.size(); ++link) {
    if (graph_.out(graph_.link(link).from).size() == 1) continue;
    for (ReadyList& list : nics_[link].ready) {
      for (uint32_t s = list.first; s != kNone; s = senders_[s].next_ready) ready.push_back(s);
      list = {};
    }
  }
  for (const uint32_t sender : ready) senders_[sender].queued = false;
  for (const uint32_t sender : ready) make_ready(sender, now);
}
/// What the flow's path is when nothing else is there: the rate of its first link; a full packet's
/// time to go and its acknowledgement's to come back; how many links.
Rate FlowTraffic::measure_idle_path(const FlowSpec& spec, Duration& round_trip,
                                    unsigned& links) const {
  const auto pass = [&](LinkId link) {
    const GraphLink& l = graph_.link(link);
    round_trip += l.latency * 2 +
                  l.time_for(settings_.payload + settings_.overhead + settings_.gap) +
                  l.time_for(settings_.ack_bytes + settings_.gap);
    ++links;
    return link;
  };
  if (!spec.path.empty()) {
    for (const LinkId link : spec.path) pass(link);
    return graph_.link(spec.path.front()).rate;
  }
  Way way = Way::by_hash(spec.to, flow_hash(spec.from, spec.to, spec.number));
  const LinkId first = pass(network_->routing().next(spec.from, way));
  for (VertexId at = graph_.link(first).to; at != spec.to;) {
    const LinkId next = network_->routing().next(at, way);
    if (next == kNoLink) break;  // there is no way now
    at = graph_.link(pass(next)).to;
  }
  return graph_.link(first).rate;
}

/// How the flow's packet of this number leaves, where that is not known beforehand.
FlowTraffic::Departure FlowTraffic::chosen_departure(uint32_t flow, uint64_t packet) const {
  const FlowSpec& spec = specs_[flow];
  if (!spec.path.empty()) {
    const std::vector<LinkId>& path =
        spec.spray.empty() ? spec.path : spec.spray[packet % spec.spray.size()];
    return {path.front(), Way::along(path.data())};
  }
  Departure d;
  Routing& routing = network_->routing();
  const unsigned paths = flows_[flow].paths;
  if (!flows_[flow].sprays) {
    d.way = Way::by_hash(spec.to, flows_[flow].hash);
  } else {
    const uint64_t all = routing.paths(spec.from, spec.to);
    const auto number = static_cast<unsigned __int128>(all) * (packet % paths) / paths;
    d.way = Way::by_number(spec.to, static_cast<uint64_t>(number));
  }
  d.first = routing.next(spec.from, d.way);
  return d;
}

/// Of the flow's next packet, whose turn `next` is not by `nic`.
FlowTraffic::Departure FlowTraffic::other_departure(uint32_t flow, LinkId nic,
                                                    const Departure& next) const {
  const size_t paths = std::max<size_t>(specs_[flow].spray.size(), flows_[flow].paths);
  for (size_t i = 0; i < paths; ++i) {
    if (const Departure other = departure_of(flow, i); other.first == nic) return other;
  }
  return next;
}

}  // namespace understudy
