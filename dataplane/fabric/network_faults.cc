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
  if (change.storm) storm(change.link, *change.storm, change.at);
  note_outage(change);
  if (!change.may_stop()) return;
  const bool was_down = is_down(change.link, change.at);
  if (!l.faulty) {
    l.faulty = true;
    l.faults.count_from(l.counters.packets);  // draws have numbers that no packet had before
  }
  // A PFC frame on the wire is not cut: nobody would send it again.
  l.faults.change(change, l.last_bytes != 0 ? l.sent_tail(change.at) : Time::never());
  if (change.from_dead.value_or(false)) drop_queued(change.link, change.at);
  if (is_down(change.link, change.at) != was_down) {
    if (!moved_.empty()) moved_[change.link] = change.at;
    await_reroute(change.link, change.at);
  }
  serve_or_wait(change.link, change.at);
}

/// What waits in front of a link is stopped when that goes out.
void Network::note_outage(const RateChange& change) {
  Link& l = links_[change.link];
  if (change.ends_stop()) l.out = false;
  if (change.outage == kNoOutage || !change.stops()) return;
  recoveries_.begin(change.outage, change.at);
  outage_of_.resize(links_.size(), kNoOutage);
  outage_of_[change.link] = change.outage;
  l.out = true;
  for (unsigned cls = 0; cls < classes_; ++cls) {
    if (!change.may_stop() && (l.paused >> cls & 1) == 0) continue;  // a storm of other classes
    for (PacketId id = queues_[change.link * classes_ + cls].first; id != kNoPacketId;
         id = packets_[id].next) {
      note_stopped(change.link, packets_[id], PacketLoss::kOutage);
    }
  }
}

void Network::note_stopped(LinkId link, const NetPacket& packet, PacketLoss why) {
  uint32_t outage = outage_of_[link];
  if (why == PacketLoss::kNoRoute || why == PacketLoss::kWatchdog) {
    if (outage == kNoOutage) outage = recoveries_.last();
  } else if (why != PacketLoss::kOutage) {
    return;
  }
  if (outage != kNoOutage) recoveries_.stop(ends_.stream_of(packet), outage);
}

bool Network::is_down(LinkId link, Time now) const {
  return links_[link].faults.is_down() || outage_at(graph_.link(link), now) != nullptr;
}

/// What waits in a switch in front of the link is lost.
void Network::drop_queued(LinkId link, Time now) {
  for (unsigned cls = 0; cls < classes_; ++cls) drop_class(link, cls, PacketLoss::kOutage, now);
}

void Network::drop_class(LinkId link, unsigned cls, PacketLoss why, Time now) {
  Link& l = links_[link];
  Queue& q = queues_[link * classes_ + cls];
  while (q.first != kNoPacketId) {
    const PacketId id = q.first;
    q.first = packets_[id].next;
    q.bytes -= packets_[id].buffer_bytes;
    l.queued -= packets_[id].buffer_bytes;
    leave_buffer(link, cls, id, now);
    lose(id, link, why, now);
  }
  q.deficit = 0;
  l.waiting &= static_cast<uint8_t>(~(1u << cls));
}

/// The link has gone down, or come up: the routing will find out, if that lasts.
void Network::await_reroute(LinkId link, Time changed) {
  if (!settings_.reconverge || routing_ == nullptr || changed.is_never()) return;
  const Time at = changed + *settings_.reconverge;
  if (findings_.empty() || findings_.back().at != at) calendar_.push(at, kReroute, 0);
  findings_.push_back({at, link});
}

/// Takes all links out, or back, that have been as they are for long enough.
void Network::reroute(Time now) {
  std::vector<LinkState> states;
  const Time since = now - *settings_.reconverge;
  const auto lasts = [&](LinkId link) {
    if (moved_[link] > since) return false;
    return std::ranges::none_of(graph_.link(link).down, [&](const GraphLink::Outage& o) {
      return (o.from > since && o.from <= now) || (o.to > since && o.to <= now);
    });
  };
  std::erase_if(findings_, [&](const Finding& finding) {
    if (finding.at > now) return false;
    const LinkId link = finding.link;
    const bool down = is_down(link, now);
    if (lasts(link) && down != left_out_[link]) {
      left_out_[link] = down;
      states.push_back({link, !down});
      if (down && !outage_of_.empty() && outage_of_[link] != kNoOutage) {
        recoveries_[outage_of_[link]].rerouted = now;
      }
    }
    return true;
  });
  if (states.empty()) return;
  routing_->set_links(states);
  for (const LinkState& state : states) {
    if (!state.up) drop_queued(state.link, now);
  }
  ends_.rerouted(now);
}

bool Network::is_closed(LinkId link, Time now) const {
  const Link& l = links_[link];
  if (is_stormed(link)) return true;
  if (!l.faulty) return false;
  const GraphLink::Outage* outage = outage_at(graph_.link(link), now);
  return l.faults.is_closed() || (outage != nullptr && outage->to.is_never());
}

}  // namespace understudy
