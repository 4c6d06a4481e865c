// Links that are down, that lose packets, or whose NIC stands still: known outages of the graph, and
// what is changed while packets are under way.
#include <algorithm>

#include "dataplane/fabric/network.h"

namespace understudy {
namespace {

/// The known outage that holds now; null: there is none.
const GraphLink::Outage* outage_at(const GraphLink& link, Time now) {
  const auto holds = [&](const GraphLink::Outage& o) { return now >= o.from && now < o.to; };
  const auto found = std::ranges::find_if(link.down, holds);
  return found == link.down.end() ? nullptr : &*found;
}

}  // namespace

/// Whether nothing may enter the link now. The end of an outage that is known is an event; any
/// other end comes by change().
bool Network::holds(LinkId link, Time now) {
  const Link& l = links_[link];
  if (l.faults.holds(l.from_nic)) return true;
  const GraphLink::Outage* outage = outage_at(graph_.link(link), now);
  if (outage == nullptr) return false;
  if (!outage->to.is_never()) calendar_.push(outage->to, kUp, link);
  return true;
}

/// Why a faulty link has lost the next packet that comes to its far end.
std::optional<PacketLoss> Network::lost_on(LinkId link, const NetPacket& p) {
  Link& l = links_[link];
  const auto why = l.faults.lost(p.tail, l.to_nic, settings_.seed, link, class_of_[p.priority]);
  const Duration latency = l.latency();
  for (const GraphLink::Outage& o : graph_.link(link).down) {
    if (p.tail - latency > o.from && p.head - latency < o.to) return PacketLoss::kOutage;
  }
  return why;
}

void Network::change(const RateChange& change) {
  Link& l = links_[change.link];
  if (change.rate) set_rate(change.link, *change.rate);
  if (change.latency) set_latency(change.link, *change.latency);
  if (!change.may_stop()) return;
  if (!l.faulty) {
    l.faulty = true;
    l.faults.count_from(l.counters.packets);  // draws have numbers that no packet had before
  }
  // A PFC frame on the wire is not cut: nobody would send it again.
  l.faults.change(change, l.last_bytes != 0 ? l.sent_tail(change.at) : Time::never());
  serve_or_wait(change.link, change.at);
}

bool Network::is_closed(LinkId link, Time now) const {
  const Link& l = links_[link];
  if (!l.faulty) return false;
  const GraphLink::Outage* outage = outage_at(graph_.link(link), now);
  return l.faults.is_closed() || (outage != nullptr && outage->to.is_never());
}

}  // namespace understudy
