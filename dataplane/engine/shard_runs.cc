// Runs: packets of one WRITE that have come together, one behind the other, and that nobody tells
// apart before the last is there. They are one packet of the pool, one place in the queues of both
// links and one event at the end; on the links each takes the time that it takes alone.
#include <algorithm>
#include <utility>

#include "dataplane/engine/shard.h"
#include "dataplane/wire/headers.h"

namespace understudy {
namespace {

constexpr uint32_t kMostInRun = 32;
/// Neither link needs longer for a packet of a run: a change of its rate, which takes effect with
/// the next run, is at most 12 us late, and 12 more where the run passes a link ahead.
constexpr Duration kLongestOfRun = Duration::ns(375);

bool is_plain_middle(const RoceView& roce) {
  return roce.opcode == static_cast<uint8_t>(Opcode::kWriteMiddle) && !roce.ack_request &&
         roce.pad == 0;
}

}  // namespace

bool Shard::goes_in_runs(const ReadFrame& read) {
  return read.kind == FrameKind::kRoce && is_plain_middle(read.roce);
}

/// Only behind a packet that comes alone: what is wrong with a message is answered at that one's
/// time.
bool Shard::opens_run(const FrameView& view, const RoceView& roce, uint32_t slot) {
  if (!is_plain_middle(roce) || slot != run_.slot || roce.psn != run_.psn.next()) return false;
  const QpSlot& q = qps_[slot];
  if (!takes_at_once() || q.wants_payload || marked(view.tos)) return false;
  Link& first = links_[link_id(here().nic, true, class_of(roce))];
  const uint32_t second = link_id(q.node, false, class_of(roce));
  const uint32_t bytes = wire_bytes(static_cast<uint32_t>(view.frame.size()));
  return expects(second) && first.time_for(bytes) <= kLongestOfRun &&
         links_[second].time_for(bytes) <= kLongestOfRun;
}

void Shard::open_run(uint32_t packet, const RoceView& roce) {
  Packet& p = pool_[packet];
  p.kind = PacketKind::kRun;
  p.before = 0;
  p.before_bytes = roce.payload_bytes;
  p.before_wire_bytes = p.wire_bytes;
  way_of_run(packet)[0] = {p.head, p.tail};
  run_.open = packet;
}

/// Whether it is the next packet of the message.
bool Shard::joins_run(const FrameView& view, const RoceView& roce, uint32_t slot) const {
  if (run_.open == kNoPacket || slot != run_.slot || roce.psn != run_.psn.next()) return false;
  if (marked(view.tos)) return false;
  const OpcodeInfo& info = roce.info();
  if (info.kind != OpKind::kWrite || info.start) return false;
  return info.end || roce.payload_bytes == pool_[run_.open].before_bytes;
}

void Shard::join_run(const FrameView& view, const RoceView& roce, Time now) {
  Packet& p = pool_[run_.open];
  const bool plain = is_plain_middle(roce);
  if (!plain) {
    p.view = roce;
    p.frame_bytes = static_cast<uint32_t>(view.frame.size());
    p.wire_bytes = wire_bytes(p.frame_bytes);
  }
  extend_run(roce.psn, now);
  if (!plain) close_run(now);
}

/// By a packet like the one before it.
void Shard::extend_run(Psn psn, Time now) {
  Packet& p = pool_[run_.open];
  p.view.psn = psn;
  way_of_run(run_.open)[++p.before] = {now - here().in.time_for(p.wire_bytes), now};
  run_.psn = psn;
  if (p.before + 1 == kMostInRun) close_run(now);
}

/// Whether a frame whose headers are those of `like`, a packet of the run if its last packet was
/// the frame before, is the next one.
bool Shard::continues_run(const ReadFrame& like, std::span<const uint8_t> frame, uint32_t at,
                          Time now) {
  if (run_.open == kNoPacket || run_.at + 1 != at || psn_in(frame) != run_.psn.next()) return false;
  ++here().counters.rx_roce;
  if (verifies_next() && !icrc_ok(frame, like.view, like.roce, icrc_memory_)) {
    here().counters.drop(Drop::kBadIcrc);
  } else {
    run_.at = at;
    extend_run(run_.psn.next(), now);
  }
  return true;
}

/// Before anything else of those frames that came together goes on.
void Shard::close_run(Time now) {
  if (run_.open == kNoPacket) return;
  come_in(std::exchange(run_.open, kNoPacket), now);
}

/// When the packets' heads and tails come in at the next link. In the buffer: the payload is not
/// kept.
LinkExit* Shard::way_of_run(uint32_t packet) {
  static_assert(kMostInRun * sizeof(LinkExit) <= kPacketBufferBytes &&
                kPacketBufferBytes % alignof(LinkExit) == 0);
  return reinterpret_cast<LinkExit*>(pool_.buffer(packet));
}

/// How many of a packet's have arrived in front of its link.
uint32_t Shard::arrived(uint32_t packet, Time now) {
  const Packet& p = pool_[packet];
  if (p.kind != PacketKind::kRun) return p.due <= now ? 1 : 0;
  const LinkExit* const way = way_of_run(packet);
  uint32_t n = 0;
  while (n <= p.before && way[n].head <= now) ++n;
  return n;
}

void Shard::pass_run(uint32_t packet, uint32_t link, Time now) {
  Packet& p = pool_[packet];
  Link& passed = links_[link];
  LinkExit* const way = way_of_run(packet);
  const auto pass = [&](uint32_t i, uint32_t bytes) {
    const LinkPassage passage = passed.pass(way[i].head, way[i].tail, bytes);
    way[i] = passed.exit(passage);
    return passage.start;
  };
  for (uint32_t i = 0; i < p.before; ++i) pass(i, p.before_wire_bytes);
  const Time arrival = way[p.before].head;
  const Time last = pass(p.before, p.wire_bytes);
  if (!passed.queue_empty()) await_free(link);
  const uint32_t cls = link % kClasses;
  if (link != link_id(p.real, true, cls)) {
    passed.note_passing(arrival, last, p.before_wire_bytes);
    return events_.push(way[p.before].tail, EventKind::kDeliver, packet);
  }
  p.link = link_id(p.node, false, cls);
  const Duration time = time_of_next_link(p, p.before_wire_bytes);
  for (uint32_t i = 0; i < p.before; ++i) way[i].head = head_behind(way[i], time);
  way[p.before].head = head_behind(way[p.before], time_of_next_link(p, p.wire_bytes));
  const Time at = std::max(now, way[0].head);
  if (!passes_ahead(p.link, at, now)) return expect(packet, at);
  pass_run(packet, p.link, now);
}

}  // namespace understudy
