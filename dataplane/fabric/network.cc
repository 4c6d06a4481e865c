#include "dataplane/fabric/network.h"

#include <algorithm>
#include <bit>

#include "dataplane/base/assert.h"
#include "dataplane/fabric/deadlock.h"
#include "dataplane/fabric/keyed_draw.h"

namespace understudy {
namespace {

// How many events ahead; found by measurement.
constexpr uint32_t kPrefetchPacket = 6, kPrefetchWay = 2;
constexpr size_t kPrefetchWake[] = {8, 5, 2};
constexpr size_t kFewLinks = 256;  // that fit into it

}  // namespace

PacketId Network::take() {
  if (free_.empty()) {
    packets_.emplace_back();
    if (settings_.telemetry) telemetry_.emplace_back();
    return static_cast<PacketId>(packets_.size() - 1);
  }
  const PacketId id = free_.back();
  free_.pop_back();
  packets_[id] = NetPacket();
  return id;
}

void Network::step() {
  bool from_lane;
  const CalendarEvent e = calendar_.pop(from_lane);
  ++events_;
  prefetch(from_lane);
  switch (e.kind) {
    case kFree:
      links_[e.index].release();
      if (e.time >= links_[e.index].free_at()) serve(e.index, e.time);
      return;
    case kArrive:
      return arrive(e.index, e.time);
    case kPause:
    case kResume:
      return paused(e.index >> kClassShift, e.index & 7, e.kind == kPause, e.time);
    case kWake:
      return ends_.wake(e.index, e.time);
    case kUp:
      return serve_or_wait(e.index, e.time);
    case kReroute:
      return reroute(e.time);
    case kPoll:
      return poll(e.time);
    case kRestore:
      return restore(e.index >> kClassShift, e.index & 7, e.time);
    case kPauseLeaves:
    case kResumeLeaves:
      return ends_.pause_leaves(e.index >> kClassShift, e.index & 7, e.kind == kPauseLeaves,
                                e.time);
  }
}

/// A large network does not fit into the cache: what the next events need is asked for early.
void Network::prefetch(bool from_lane) {
  const auto ahead = [&](uint32_t events) {
    return from_lane ? calendar_.peek_lane(events) : calendar_.peek(events);
  };
  if (const CalendarEvent* far = ahead(kPrefetchPacket)) {
    if (far->kind == kArrive) __builtin_prefetch(&packets_[far->index]);
    if (far->kind == kFree) prefetch_link(far->index);
  }
  for (int stage = 0; stage < 3 && !from_lane; ++stage) {
    const CalendarEvent* wake = calendar_.peek(kPrefetchWake[stage]);
    if (wake != nullptr && wake->kind == kWake) ends_.prefetch(wake->index, stage);
  }
  const CalendarEvent* near = ahead(kPrefetchWay);
  if (near == nullptr) return;
  if (near->kind == kFree && links_.size() >= kFewLinks && links_[near->index].waiting != 0) {
    const PacketId first = queues_[size_t{near->index} * classes_].first;
    if (first != kNoPacketId) __builtin_prefetch(&packets_[first]);
  }
  if (near->kind != kArrive) return;
  const Way& way = packets_[near->index].way;
  if (links_.size() < kFewLinks) {
    if (way.has_links()) __builtin_prefetch(way.links());
    return;
  }
  const Link& in = links_[way.link];
  if (in.to_nic) return ends_.prefetch_delivery(packets_[near->index]);
  const LinkId next = expected_link(way, in.to);
  if (next == kNoLink) return;
  prefetch_link(next);
  __builtin_prefetch(&queues_[size_t{next} * classes_]);
  __builtin_prefetch(&ingress_[size_t{way.link} * classes_]);
}

void Network::prefetch_link(LinkId link) const {
  const auto* at = reinterpret_cast<const char*>(&links_[link]);
  for (size_t i = 0; i < 3 * alignof(Link); i += alignof(Link)) __builtin_prefetch(at + i);
}

/// By which a packet with this way that comes to `at` would go on.
LinkId Network::expected_link(const Way& way, VertexId at) {
  return way.has_links() ? *way.links() : routing_->expected(at, way);
}

void Network::ready(LinkId nic, Time now) { serve_or_wait(nic, now); }

void Network::serve_or_wait(LinkId link, Time now) {
  Link& l = links_[link];
  if (now >= l.free_at()) return serve(link, now);
  if (!l.awaited()) await_free(link);
}

void Network::serve(LinkId link, Time now) {
  Link& l = links_[link];
  if (l.faulty && holds(link, now)) {
    if (l.from_nic) ends_.held(link, now);
    return;
  }
  if (!l.pfc.empty()) return transmit_pfc(link, now);
  if (const uint8_t eligible = l.waiting & static_cast<uint8_t>(~l.paused); eligible != 0) {
    return transmit(link, dequeue(link, pick(link, eligible), now), now, now);
  }
  if (!l.from_nic) return;
  const PacketId id = ends_.pull(link, l.paused, now);
  if (id == kNoPacketId) return;
  NetPacket& p = packets_[id];
  p.epoch = recoveries_.epoch() & 0xf;
  if (p.tail == Time()) p.head = p.tail = now;
  // One that has just come in has been on the link while its wire was idle; others have waited.
  transmit(link, id, p.tail == now ? std::max(p.head, l.free_at()) : now, now);
}

/// The class that may send next: strict ones in the order of the settings, then by weight, each as
/// many bytes in its turn as it has weight (surplus round robin).
unsigned Network::pick(LinkId link, uint8_t eligible) {
  if ((eligible & (eligible - 1)) == 0) return static_cast<unsigned>(std::countr_zero(eligible));
  for (unsigned c = 0; c < classes_; ++c) {
    if ((eligible >> c & 1) != 0 && settings_.classes[c].weight == 0) return c;
  }
  Link& l = links_[link];
  for (;;) {
    Queue& q = queues_[link * classes_ + l.turn];
    if ((eligible >> l.turn & 1) != 0 && q.deficit > 0) return l.turn;
    l.turn = static_cast<uint8_t>((l.turn + 1) % classes_);
    if ((eligible >> l.turn & 1) != 0) {
      queues_[link * classes_ + l.turn].deficit +=
          int64_t{settings_.classes[l.turn].weight} * settings_.full_packet_bytes;
    }
  }
}

void Network::enqueue(LinkId link, PacketId id) {
  const unsigned cls = class_of_[packets_[id].priority];
  Queue& q = queues_[link * classes_ + cls];
  packets_[id].next = kNoPacketId;
  if (q.first == kNoPacketId) {
    q.first = id;
  } else {
    packets_[q.last].next = id;
  }
  q.last = id;
  q.bytes += packets_[id].buffer_bytes;
  Link& l = links_[link];
  l.waiting |= static_cast<uint8_t>(1u << cls);
  l.queued += packets_[id].buffer_bytes;
}

PacketId Network::dequeue(LinkId link, unsigned cls, Time now) {
  Link& l = links_[link];
  Queue& q = queues_[link * classes_ + cls];
  const PacketId id = q.first;
  NetPacket& p = packets_[id];
  q.first = p.next;
  q.bytes -= p.buffer_bytes;
  q.deficit -= p.buffer_bytes;
  l.queued -= p.buffer_bytes;
  if (q.first == kNoPacketId) {
    q.deficit = 0;
    l.waiting &= static_cast<uint8_t>(~(1u << cls));
  }
  leave_switch(link, cls, id, now);
  return id;
}

/// What a switch does to a packet that leaves one of its queues.
void Network::leave_switch(LinkId link, unsigned cls, PacketId id, Time now) {
  NetPacket& p = packets_[id];
  Link& l = links_[link];
  const Queue& q = queues_[link * classes_ + cls];
  if (const EcnSettings* ecn = ecn_[link * classes_ + cls]; ecn != nullptr && q.bytes > ecn->kmin) {
    const double marks = q.bytes > ecn->kmax
                             ? 1
                             : ecn->pmax * static_cast<double>(q.bytes - ecn->kmin) /
                                   static_cast<double>(ecn->kmax - ecn->kmin);
    if (marks >= 1 ||
        keyed_draw(settings_.seed, DrawKind::kMark, link, cls, l.counters.packets, marks)) {
      if (p.ect) {
        p.ce = true;
        ++l.counters.marked;
      } else {
        ++l.counters.not_ect;
      }
    }
  }
  note_telemetry(link, id, now);
  leave_buffer(link, cls, id, now);
}

/// Its room is free again, and who sent it may go on.
void Network::leave_buffer(LinkId link, unsigned cls, PacketId id, Time now) {
  const NetPacket& p = packets_[id];
  const LinkId came_by = p.way.link;
  IngressUse& use = ingress_[came_by * classes_ + cls];
  SharedBuffer& buffer = buffers_[links_[link].from];
  buffer.leave(use, p.buffer_bytes);
  if (const auto& pfc = settings_.classes[cls].pfc; pfc && buffer.may_resume(use, *pfc)) {
    use.pausing = false;
    send_pfc(came_by, cls, false, now);
  }
}

void Network::note_telemetry(LinkId link, PacketId id, Time now) {
  if (!packets_[id].telemetry || !settings_.telemetry) return;
  TelemetryRecord& record = telemetry_[id];
  if (record.count == TelemetryRecord::kMostHops) return;
  const Link& l = links_[link];
  record.hops[record.count++] = {graph_.link(link).rate, now, l.counters.wire_bytes, l.queued};
}

void Network::set_rate(LinkId link, Rate rate) {
  links_[link].own_rate = rate;
  links_[link].set_rate(rate);
  note_faster(links_[link].from);
  note_faster(links_[link].to);
}

Duration Network::time_on(LinkId link, uint32_t bytes) {
  Link& l = links_[link];
  if (load_ != nullptr) {
    const Rate left = load_->left(link, l.own_rate);
    if (left != l.rate()) l.set_rate(left);
  }
  if (settings_.resolution.ps() == 0) return l.time_of_next(bytes);
  const Duration exact = l.time_for(bytes);
  return Duration::ps(exact.ps() - exact.ps() % settings_.resolution.ps());
}

/// Its first byte leaves at `start`, which has passed where a wire outside is a part of the link.
void Network::transmit(LinkId link, PacketId id, Time start, Time now) {
  Link& l = links_[link];
  NetPacket& p = packets_[id];
  l.send(start, p.tail, time_on(link, p.wire_bytes));
  l.started = start;
  l.last_bytes = p.wire_bytes;
  ++l.counters.packets;
  l.counters.wire_bytes += p.wire_bytes;
  p.head = l.exit().head;
  p.tail = l.exit().tail;
  p.way.link = link;
  Time at = l.to_outside ? p.head : p.tail;
  if (settings_.cut_through && !l.to_nic) at = arrival_at_switch(link, p);
  calendar_.push_in_order(std::max(now, at), kArrive, id);
  if (l.from_nic || !l.pfc.empty() || (l.waiting & static_cast<uint8_t>(~l.paused)) != 0) {
    await_free(link);
  }
}

/// When a packet that is cut through comes to its switch: with its head, but in front of a faster
/// link when it can go through in one piece, so that the link serves others meanwhile. Which link
/// that will be is decided on arrival; this is what is expected.
Time Network::arrival_at_switch(LinkId link, const NetPacket& p) {
  Link& l = links_[link];
  // No slower than this link passed it on, and all behind it are no faster.
  if (!l.into_faster && load_ == nullptr && p.tail - p.head <= l.most_for(p.wire_bytes)) {
    return p.head;
  }
  const LinkId expected = expected_link(p.way, l.to);
  if (expected == kNoLink) return p.head;
  Link& next = links_[expected];
  return std::max(p.head, p.tail - next.most_for(p.wire_bytes));
}

void Network::note_backlog(LinkId nic, uint64_t bytes, Time now) {
  links_[nic].queued = bytes;
  note_peak(links_[nic], now);
}

void Network::note_peak(Link& l, Time now) {
  if (l.queued <= l.counters.queue_peak) return;
  l.counters.queue_peak = l.queued;
  l.counters.queue_peak_at = now;
}

void Network::arrive(PacketId id, Time now) {
  NetPacket& p = packets_[id];
  const LinkId came_by = p.way.link;
  const Link& in = links_[came_by];
  if (in.faulty) {
    if (const auto why = lost_on(came_by, p)) return lose(id, came_by, *why, now);
  }
  if (in.to_nic) {
    ++delivered_;
    if (recoveries_.any_stopped()) recoveries_.came(ends_.stream_of(p), p.epoch, now);
    return ends_.deliver(id, now);
  }
  const LinkId link = p.way.has_links() ? p.way.take_link() : routing_->next(in.to, p.way);
  if (link == kNoLink) return lose(id, came_by, PacketLoss::kNoRoute, now);
  Link& l = links_[link];
  DEBUG_ASSERT_INVARIANT(l.from == in.to);
  const unsigned cls = class_of_[p.priority];
  if ((l.dropping >> cls & 1) != 0) return lose(id, link, PacketLoss::kWatchdog, now);
  IngressUse& use = ingress_[came_by * classes_ + cls];
  SharedBuffer& buffer = buffers_[in.to];
  const ClassSettings& settings = settings_.classes[cls];
  if (settings.pfc) {
    if (!buffer.admit(use, *settings.pfc, p.buffer_bytes)) {
      return lose(id, link, PacketLoss::kHeadroom, now);
    }
    if (SharedBuffer::must_pause(use)) {
      use.pausing = true;
      send_pfc(came_by, cls, true, now);
    }
  } else if (!buffer.admit_lossy(use, settings.egress_alpha, queues_[link * classes_ + cls].bytes,
                                 p.buffer_bytes)) {
    return lose(id, link, PacketLoss::kBuffer, now);
  }
  const bool blocked = !l.pfc.empty() || use.pausing || (l.paused >> cls & 1) != 0 || l.faulty;
  if (now < l.free_at() || l.waiting != 0 || blocked) {
    enqueue(link, id);
    note_peak(l, now);
    if (l.out && (l.faulty || (l.paused >> cls & 1) != 0)) {
      note_stopped(link, p, PacketLoss::kOutage);
    }
    if (!watched_.empty() && (l.paused >> cls & 1) != 0) arm_poll(now);
    return serve_or_wait(link, now);
  }
  // The link is idle and nobody waits: it stands in the queue for no time.
  l.queued = p.buffer_bytes;
  note_peak(l, now);
  l.queued = 0;
  buffer.leave(use, p.buffer_bytes);
  note_telemetry(link, id, now);
  transmit(link, id, now, now);
}

void Network::lose(PacketId id, LinkId link, PacketLoss why, Time now) {
  ++links_[link].counters.lost[static_cast<size_t>(why)];
  if (recoveries_.begun()) note_stopped(link, packets_[id], why);
  ends_.lost(id, why, now);
  release(id);
}

NetworkLinkCounters Network::counters_at(LinkId link, Time now) const {
  NetworkLinkCounters c = links_[link].counters;
  for (unsigned cls = 0; cls < classes_; ++cls) {
    if ((links_[link].paused >> cls & 1) == 0) continue;
    c.paused += now - queues_[link * classes_ + cls].paused_at;
  }
  for (const Storm& storm : storms_) {
    if (storm.link != link) continue;
    const uint64_t frames = std::max<uint64_t>(storm.frames(now), 1);
    c.pauses += (frames - 1) * static_cast<uint64_t>(std::popcount(storm.classes));
  }
  return c;
}

void Network::finish(Time now) {
  for (LinkId link = 0; link < links_.size(); ++link) {
    for (unsigned c = 0; c < classes_; ++c) {
      Queue& q = queues_[link * classes_ + c];
      if ((links_[link].paused >> c & 1) == 0) continue;
      links_[link].counters.paused += now - q.paused_at;
      q.paused_at = now;
    }
  }
}

unsigned __int128 Network::sent_bits(LinkId link, Time at) const {
  const Link& l = links_[link];
  constexpr unsigned kBits = 8;
  const auto bits = static_cast<unsigned __int128>(l.counters.wire_bytes) * kBits << kBitFraction;
  const Time free = l.free_at();
  if (at >= free) return bits;
  const auto last = static_cast<unsigned __int128>(l.last_bytes) * kBits << kBitFraction;
  return bits - last * static_cast<uint64_t>((free - at).ps()) /
                    static_cast<uint64_t>((free - l.started).ps());
}

void Network::reserve(size_t packets) {
  packets_.reserve(packets);
  free_.reserve(packets);
  calendar_.reserve(2 * packets + 2 * links_.size());
  if (settings_.telemetry) telemetry_.reserve(packets);
}

size_t Network::memory_bytes() const {
  return packets_.capacity() * sizeof(NetPacket) + telemetry_.capacity() * sizeof(TelemetryRecord) +
         links_.capacity() * sizeof(Link) + queues_.capacity() * sizeof(Queue) +
         ingress_.capacity() * sizeof(IngressUse);
}

std::vector<LinkId> Network::deadlock() const {
  DeadlockSearch search(*this);
  const auto cycle = search.find(*this);
  return {cycle.begin(), cycle.end()};
}

Duration Network::longest_pause(Time now) const {
  Duration longest;
  for (LinkId link = 0; paused_now_ != 0 && link < links_.size(); ++link) {
    for (unsigned c = 0; c < classes_; ++c) {
      if ((links_[link].paused >> c & 1) == 0) continue;
      longest = std::max(longest, now - queues_[link * classes_ + c].paused_at);
    }
  }
  return longest;
}

}  // namespace understudy
