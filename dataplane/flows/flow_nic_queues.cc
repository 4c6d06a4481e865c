// NICs with one queue for all that leaves them: packets are handed over before their time, and
// acknowledgements stand behind what came there first (NicLimits::ahead).
#include <utility>

#include "dataplane/flows/flow_traffic.h"

namespace understudy {

/// Its control has it send slower than its NIC's link can: packets are handed over one by one.
bool FlowTraffic::is_held_back(const Sender& s, Time now) const {
  return s.pacing.next() > now && s.control->rate() < graph_.link(first_link(s.first)).rate;
}

/// All packets that may leave now and find room, as a driver hands them to its NIC. Gives the link
/// of the last one; none if none was handed over.
LinkId FlowTraffic::hand_over(uint32_t sender, Time now) {
  Sender& s = senders_[sender];
  const uint16_t most = nic(specs_[s.first].from).ahead;
  LinkId link = kNoLink;
  s.pacing.ready(now);
  s.queued = true;  // next_packet() has nothing to line up
  while (!s.full && may_send(s) && !is_held_back(s, now)) {
    const LinkId last = std::exchange(link, first_link(s.first));
    put_behind(next_packet(sender, link, now), link);
    s.full = ++s.handed >= most;
    if (last != kNoLink && last != link) network_->ready(last, now);
  }
  s.queued = false;
  if (!s.full && may_send(s)) arm_send(sender, s.pacing.next());
  return link;
}

/// Behind all that the NIC has been given for this link.
void FlowTraffic::put_behind(PacketId packet, LinkId link) {
  Nic& n = nics_[link];
  if (n.handed_at > 0 && n.handed_at * 2 >= n.handed.size()) {
    n.handed.erase(n.handed.begin(), n.handed.begin() + static_cast<ptrdiff_t>(n.handed_at));
    n.handed_at = 0;
  }
  n.handed.push_back({packet, network_->take_turn(graph_.link(link).from)});
}

/// A packet of the sender goes onto the wire: it may hand over more where few are left.
void FlowTraffic::note_started(uint32_t sender, LinkId link, Time now) {
  Sender& s = senders_[sender];
  if (--s.handed > nic(graph_.link(link).from).again || !s.full) return;
  s.full = false;
  if (s.control == nullptr) return;
  if (const LinkId by = queue(sender, now); by != kNoLink && by != link) network_->ready(by, now);
}

PacketId FlowTraffic::next_handed(LinkId link, uint8_t blocked, Time now) {
  Nic& n = nics_[link];
  for (size_t i = n.handed_at; i < n.handed.size(); ++i) {
    const PacketId id = n.handed[i].packet;
    NetPacket& p = (*network_)[id];
    if ((blocked >> network_->class_of(p.priority) & 1) != 0) continue;
    std::move_backward(n.handed.begin() + static_cast<ptrdiff_t>(n.handed_at),
                       n.handed.begin() + static_cast<ptrdiff_t>(i),
                       n.handed.begin() + static_cast<ptrdiff_t>(i + 1));
    ++n.handed_at;
    note_cnp(p, now);
    if (p.kind != kData) return id;
    p.sent = now;
    note_started(flows_[p.flow].sender, link, now);
    return id;
  }
  return kNoPacketId;
}

}  // namespace understudy
