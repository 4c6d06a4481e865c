// The two links of a path where they may go down or lose packets, or where a node may stand still.
// A link that holds takes no packet; what comes out of one may be lost.
#include <algorithm>

#include "dataplane/engine/network/two_links.h"

namespace understudy {

void TwoLinks::change(uint32_t link, const RateChange& change, Time now) {
  may_stop_ = true;
  Trouble& t = trouble_[link];
  Link& l = links_[link];
  const bool held = holds(link);
  t.faults.change(change, l.sent_tail(now));
  if (holds(link)) {
    if (held || l.awaited()) return;
    l.await();
    t.parked = true;
  } else if (t.parked) {
    t.parked = false;
    Time at = std::max(now, l.free_at());
    if (!l.queue_empty()) {
      Packet& first = pool_[l.first()];
      first.head = std::max(first.head, now);  // it has waited: it does not begin in the past
      at = std::max(at, first.due);
    }
    events_.push(at, EventKind::kLinkFree, link);
  }
}

/// Whether the packet that comes out of `link` is lost there. It is given back then.
bool TwoLinks::lose_behind(uint32_t link, uint32_t packet) {
  const Packet& p = pool_[packet];
  const auto why = trouble_[link].faults.lost(p.tail, !is_uplink(link), config_.fault_seed, link,
                                              class_of_link(link));
  if (!why) return false;
  links_[link].counters().dropped += p.packets();
  ports_.counters_of(p.real).drop(drop_of(*why), p.packets());
  pool_.release(packet);
  return true;
}

/// The same of one that comes to its second link, out of its first one.
bool TwoLinks::lose_in_front(uint32_t packet) {
  const Packet& p = pool_[packet];
  if (is_uplink(p.link)) return false;
  const bool inbound = p.kind == PacketKind::kFromReal || p.kind == PacketKind::kRawIn;
  return lose_behind(link_id(inbound ? p.real : p.node, true, class_of_link(p.link)), packet);
}

/// A packet comes out of its second link.
void TwoLinks::on_exit(uint32_t packet, Time now) {
  Packet& p = pool_[packet];
  p.link &= ~kBehind;
  if (lose_behind(p.link, packet)) return;
  if (p.kind == PacketKind::kFromReal || p.kind == PacketKind::kRawIn) {
    return events_.push(now, EventKind::kDeliver, packet);
  }
  egress_.depart(packet, class_of_link(p.link));
}

}  // namespace understudy
