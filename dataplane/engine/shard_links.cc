// Packets on the two links of their way: each a FIFO in front of a wire. Everything here runs at
// the modelled time of its event, however late the loop comes to it.
#include <algorithm>

#include "dataplane/engine/shard.h"

namespace understudy {
namespace {

/// In front of an emulated node's link so many may wait for each packet that is free.
constexpr uint64_t kQueueShare = 8;
/// So long before its time a packet may pass a link, which then knows no change of its rate.
constexpr Duration kAhead = Duration::us(12);

}  // namespace

/// A packet of a real node is in front of its link, which takes it at once where none is before it.
void Shard::come_in(uint32_t packet, Time now) {
  if (takes_at_once()) {
    if (here().coming_in == 0 && links_[pool_[packet].link].idle(now)) return arrive(packet, now);
    ++here().coming_in;
  }
  events_.push(now, EventKind::kLinkArrive, packet);
}

void Shard::arrive(uint32_t packet, Time now) {
  if (fabric_ != nullptr) return enter_switched(packet, now);
  const uint32_t link = pool_[packet].link;
  if (drop_flood(packet)) return;
  pool_[packet].due = now;
  if (links_[link].idle(now)) {
    links_[link].note_waiting(pool_[packet].packets());
    return pass(packet, link, now);
  }
  links_[link].enqueue(packet, pool_.links(), pool_[packet].packets());
  links_[link].note_waiting();
  await_free(link);
}

/// A packet will arrive at `at`, and none before it but those that wait already: there is one way
/// only to its link. Its place there is taken now.
void Shard::expect(uint32_t packet, Time at) {
  if (drop_flood(packet)) return;
  Packet& p = pool_[packet];
  p.due = at;
  links_[p.link].enqueue(packet, pool_.links(), p.packets());
  await_free(p.link);
}

bool Shard::drop_flood(uint32_t packet) {
  const Packet& p = pool_[packet];
  if (!floods(p) || links_[p.link].waiting() < most_waiting()) return false;
  links_[p.link].counters().dropped += p.packets();
  counters_of(p.real).drop(Drop::kQueueFull, p.packets());
  pool_.release(packet);
  return true;
}

/// Who of those that were expected has arrived.
void Shard::note_arrived(uint32_t link, Time now) {
  links_[link].note_arrived(pool_.links(), [&](uint32_t packet, bool& all) {
    const uint32_t packets = arrived(packet, now);
    all = packets == pool_[packet].packets();
    return packets;
  });
}

/// Whether it has come from a real node and stands in front of another node's link.
bool Shard::floods(const Packet& p) const {
  const bool up = (p.link / kClasses) % 2 != 0;
  return !up && (p.kind == PacketKind::kFromReal || p.kind == PacketKind::kRun ||
                 p.kind == PacketKind::kThrough);
}

/// In front of one node's link a flood never takes the room of all: no more than half of it, and,
/// where several are flooded, a few times what is left free, so that there is always some for
/// another (dynamic thresholds: Choudhury, Hahne, 1998).
uint64_t Shard::most_waiting() const {
  return std::min<uint64_t>(pool_.capacity() / 2,
                            kQueueShare * pool_.available(PacketSide::kInbound) + 1);
}

void Shard::start(uint32_t link, Time now) {
  const uint32_t packets = pool_[links_[link].first()].packets();
  pass(links_[link].dequeue(pool_.links(), packets), link, now);
}

/// The link is idle, and the packet the first that comes to it.
void Shard::pass(uint32_t packet, uint32_t link, Time now) {
  const Packet& p = pool_[packet];
  if (p.kind == PacketKind::kRun) return pass_run(packet, link, now);
  const LinkPassage passage = links_[link].pass(p.head, p.tail, p.wire_bytes);
  // What a link takes no time for leaves those that come at the same moment their turn.
  const bool asked = pulls(link) && (passage.tail <= now || somebody_sends(link));
  if (!links_[link].queue_empty() || asked) await_free(link);
  after_link(packet, link, passage, now);
}

/// Whether it is a real node's, to the fabric.
bool Shard::leaves_real(uint32_t link) const {
  return (link / kClasses) % 2 != 0 && is_real(link / (2 * kClasses));
}

/// Whether all that takes it has come by one other link.
bool Shard::expects(uint32_t link) const {
  return (link / kClasses) % 2 == 0 && ports_.size() == 1 && !is_real(link / (2 * kClasses));
}

/// Whether queue pairs wait for this link.
bool Shard::pulls(uint32_t link) const {
  return (link / kClasses) % 2 != 0 && !is_real(link / (2 * kClasses));
}

/// Whether the node whose link this is has more to send, or may have it.
bool Shard::somebody_sends(uint32_t link) const {
  const uint32_t node = link / (2 * kClasses), cls = link % kClasses;
  const ReadyList& line = ready_[node * kLines + cls];
  if (line.first != kNoSlot || line.sending != kNoSlot) return true;
  if (cls != control_class()) return false;
  return ready_[node * kLines + kAckLine].first != kNoSlot || cnps_[node].first != kNoSlot;
}

void Shard::await_free(uint32_t link) {
  if (links_[link].awaited()) return;
  links_[link].await();
  Time at = links_[link].free_at();
  if (const uint32_t first = links_[link].first(); first != kNoPacket) {
    at = std::max(at, pool_[first].due);
  }
  events_.push(at, EventKind::kLinkFree, link);
}

void Shard::after_link(uint32_t packet, uint32_t link, const LinkPassage& passage, Time now) {
  Packet& p = pool_[packet];
  const LinkExit exit = links_[link].exit(passage);
  const uint32_t cls = link % kClasses;
  const bool inbound = p.kind == PacketKind::kFromReal || p.kind == PacketKind::kRawIn;
  p.head = exit.head;
  p.tail = exit.tail;
  if (link == link_id(inbound ? p.real : p.node, true, cls)) {  // first of the path's two links
    p.link = link_id(inbound ? p.node : p.real, false, cls);
    p.head = head_behind(exit, time_of_next_link(p, p.wire_bytes));
    // With a physical wire in front the head may have passed before the frame was handed over.
    const Time at = std::max(now, p.head);
    if (passes_ahead(p.link, at, now)) {
      Link& next = links_[p.link];
      next.note_passing(at, std::max(p.head, next.free_at()), p.wire_bytes);
      return pass(packet, p.link, now);
    }
    if (expects(p.link)) return expect(packet, at);
    events_.push(at, EventKind::kLinkArrive, packet);
  } else if (inbound) {
    events_.push(p.tail, EventKind::kDeliver, packet);
  } else {
    // The wire takes its own time; where it is as fast as the model both end together.
    p.due = std::max(p.head, p.tail - port_of(p.real).out.time_for(p.wire_bytes));
    if (faults_.active()) return depart_through_faults(packet);
    port_of(p.real).departures[cls].push(packet);
  }
}

/// Whether what will arrive at `at` can pass the link now: nothing comes before it, and neither its
/// arrival nor its turn is far away. Where packets are short it queues, so that a flood is seen.
bool Shard::passes_ahead(uint32_t link, Time at, Time now) const {
  const Link& l = links_[link];
  return expects(link) && l.queue_empty() && !l.awaited() && pool_.half_free() &&
         std::max(at, l.free_at()) <= now + kAhead;
}

/// Of the link that a packet comes to next.
Duration Shard::time_of_next_link(const Packet& p, uint32_t bytes) {
  Link& link = links_[p.link];
  if (!link.rate().is_unlimited()) return link.time_for(bytes);
  Port& port = port_of(p.real);
  return (is_real(p.link / (2 * kClasses)) ? port.out : port.in).time_for(bytes);
}

void Shard::link_free(uint32_t link, Time now) {
  links_[link].release();
  if (!links_[link].queue_empty()) {
    if (expects(link)) note_arrived(link, now);
    return start(link, now);
  }
  if (pulls(link)) pull(link / (2 * kClasses), link % kClasses, now);
}

}  // namespace understudy
