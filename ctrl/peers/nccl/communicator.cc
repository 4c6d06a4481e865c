#include "ctrl/peers/nccl/communicator.h"

#include <algorithm>

#include "ctrl/peers/nccl/communicator_impl.h"
#include "ctrl/peers/nccl/rank_text.h"

namespace understudy {
namespace {

/// Check-ins at a real rank's root that are under way at once: it takes them one by one.
constexpr uint32_t kCheckInsAtOnce = 64;
/// ncclCommSplits that no real rank has gone on with; others of that size than splits may be taken
/// for one.
constexpr size_t kChildrenNotBegun = 16;
constexpr uint32_t kNewSplitTag = 1u << 29, kSplitTagBefore23 = ~0u - 1;

/// Fills in the places on nodes.
std::vector<NcclMember> with_places(std::vector<NcclMember> members) {
  std::map<uint32_t, uint32_t> count;
  for (NcclMember& m : members) m.local = count[m.node]++;
  for (NcclMember& m : members) m.node_ranks = count[m.node];
  return members;
}

std::vector<NcclMember> members_of(const NcclCommunicatorSettings& settings) {
  std::vector<NcclMember> members;
  for (uint32_t rank = 0; rank < settings.ranks.size(); ++rank) {
    const auto& r = settings.ranks[rank];
    members.push_back({rank, r.real, r.node, 0, 1, rank});
  }
  return with_places(std::move(members));
}

}  // namespace

size_t NcclCommunicator::Impl::Ring::segment_after(uint32_t rank) const {
  size_t s = 0;
  while (s < group.segments().size() && group.segments()[s].after != rank) ++s;
  return s;
}

NcclCommunicator::Impl::Impl(NcclCommunicatorSettings settings, NcclHost& host)
    : settings_(std::move(settings)),
      host_(host),
      layout_(*layouts_of(settings_.version).front()),
      addresses_(settings_.ranks.size()),
      was_answered_(settings_.ranks.size()) {
  rings_.push_back(std::make_unique<Ring>(
      NcclGroupSettings{0, settings_.version, settings_.id.magic, settings_.seed, false},
      members_of(settings_), host_, *this));
  Ring& ring = *rings_.front();
  ring.first_rings.resize(ring.group.segments().size());
  for (uint32_t rank = 0; rank < settings_.ranks.size(); ++rank) {
    ring.rank_of.push_back(rank);
    if (!settings_.ranks[rank].real) ++emulated_;
  }
  if (settings_.emulated_root) {
    std::vector<bool> real;
    for (const auto& rank : settings_.ranks) real.push_back(rank.real);
    root_.emplace(layout_, std::move(real));
    listeners_[settings_.root_listener] = {settings_.root_rank, nullptr, false};
  }
}

void NcclCommunicator::Impl::failed(const std::string& why) {
  if (failure_.empty()) failure_ = why;
}

void NcclCommunicator::Impl::clean_up() {
  if (cleaned_ || (failure_.empty() && !finished_)) return;
  cleaned_ = true;
  for (const auto& [id, stream] : streams_) host_.close(id);
  streams_.clear();
  for (const auto& [id, listener] : listeners_) host_.stop_listening(id);
  listeners_.clear();
  for (const auto& ring : rings_) ring->group.disconnect();
}

bool NcclCommunicator::Impl::listen(uint32_t rank, Ring* only, bool root_answer,
                                    SocketAddress& address) {
  const ListenerId id = host_.new_listener();
  const auto listening = host_.listen(rank, id);
  if (!listening) {
    failed("rank " + std::to_string(rank) + " cannot listen: " + listening.error().text);
    return false;
  }
  listeners_[id] = {rank, only, root_answer};
  address = *listening;
  return true;
}

void NcclCommunicator::Impl::start() {
  std::map<uint32_t, bool> real_nodes;
  for (const auto& rank : settings_.ranks) {
    const auto [at, fresh] = real_nodes.try_emplace(rank.node, rank.real);
    if (at->second != rank.real) {
      return failed("node " + std::to_string(rank.node) +
                    " has real and emulated ranks: NCCL's ranks of one node talk by its memory");
    }
  }
  const NcclGroup& group = rings_.front()->group;
  if (group.segments().empty()) return failed("a communicator needs real and emulated ranks");
  for (uint32_t rank = 0; rank < settings_.ranks.size(); ++rank) {
    if (settings_.ranks[rank].real) continue;
    if (!listen(rank, nullptr, false, addresses_[rank])) return;
  }
  // Up to 2.22 the root's answer and the first frame of the ring look the same.
  for (const RingSegment& segment : group.segments()) {
    if (root_ || layout_.root_answer != layout_.first[0]) break;
    if (!listen(segment.after, nullptr, true, answer_addresses_[segment.after])) return;
  }
  if (!root_) check_in_more();
}

void NcclCommunicator::Impl::check_in_more() {
  for (; next_check_in_ < settings_.ranks.size() && checking_in_ < kCheckInsAtOnce;
       ++next_check_in_) {
    const uint32_t rank = next_check_in_;
    if (settings_.ranks[rank].real) continue;
    const auto other = answer_addresses_.find(rank);
    const NcclCheckIn check_in{rank, static_cast<uint32_t>(settings_.ranks.size()),
                               other == answer_addresses_.end() ? addresses_[rank] : other->second,
                               addresses_[rank]};
    std::vector<uint8_t> bytes;
    append_handshake(bytes, settings_.id.magic);
    append_frame(bytes, check_in_bytes(layout_, check_in));
    const StreamId id = host_.new_stream();
    Stream& stream = streams_.try_emplace(id, Role::kSendOnce, false).first->second;
    stream.rank = rank;
    stream.pending = std::move(bytes);
    stream.what =
        "rank " + std::to_string(rank) + "'s check-in at the root, " + settings_.id.root.text();
    stream.check_in = true;
    ++checking_in_;
    host_.dial(rank, settings_.id.root, id);
  }
}

void NcclCommunicator::Impl::answer_at_root() {
  for (const uint32_t rank : root_->answerable()) {
    const auto next = static_cast<uint32_t>((rank + 1) % settings_.ranks.size());
    std::vector<uint8_t> bytes;
    append_handshake(bytes, settings_.id.magic);
    append_frame(bytes, ring_info_bytes(layout_, settings_.ranks[next].real ? root_->of(next).ring
                                                                            : addresses_[next]));
    send_once(settings_.root_rank, root_->of(rank).answer, std::move(bytes),
              "the root's answer to rank " + std::to_string(rank));
  }
}

void NcclCommunicator::Impl::dial_ring(Ring& ring, size_t segment) {
  Ring::End& end = ring.ends[2 * segment];
  if (end.asked || !ring.first_rings[segment] || ring.group.settings().magic == 0) return;
  const RingSegment& s = ring.group.segments()[segment];
  const uint32_t world = ring.group.members()[s.before].world;
  end.asked = true;
  end.stream = host_.new_stream();
  Stream& stream = streams_.try_emplace(end.stream, Role::kRing, false).first->second;
  stream.rank = world;
  stream.ring = &ring;
  stream.segment = segment;
  stream.first = true;
  stream.from = *ring.first_rings[segment];
  append_handshake(stream.pending, ring.group.settings().magic);
  host_.dial(world, *ring.first_rings[segment], end.stream);
}

SocketAddress NcclCommunicator::Impl::address(const NcclGroup& group, uint32_t rank) {
  const Ring& ring = ring_of(group);
  return ring.own_addresses.empty() ? addresses_[rank] : ring.own_addresses[ring.rank_of[rank]];
}

NcclCommunicator::Impl::Ring& NcclCommunicator::Impl::ring_of(const NcclGroup& group) {
  return **std::find_if(rings_.begin(), rings_.end(),
                        [&](const auto& ring) { return &ring->group == &group; });
}

void NcclCommunicator::Impl::send_once(uint32_t rank, const SocketAddress& to,
                                       std::vector<uint8_t> bytes, std::string what) {
  const StreamId id = host_.new_stream();
  Stream& stream = streams_.try_emplace(id, Role::kSendOnce, false).first->second;
  stream.rank = rank;
  stream.pending = std::move(bytes);
  stream.what = std::move(what) + ", " + to.text();
  host_.dial(rank, to, id);
}

void NcclCommunicator::Impl::ring_send(NcclGroup& group, size_t segment, bool to_first,
                                       std::span<const uint8_t> bytes) {
  const Ring::End& end = ring_of(group).ends[2 * segment + (to_first ? 0 : 1)];
  if (end.closed) {
    const RingSegment& s = group.segments()[segment];
    return failed("rank " + std::to_string(to_first ? s.first : s.last) +
                  " has left the communicator" + group.name() +
                  ", while others begin an all-gather");
  }
  host_.send(end.stream, bytes);
}

void NcclCommunicator::Impl::child(NcclGroup& parent, std::vector<NcclMember> members) {
  size_t waiting = 0;
  for (const auto& ring : rings_) waiting += !ring->begun;
  if (waiting >= kChildrenNotBegun) {
    rings_.erase(
        std::find_if(rings_.begin(), rings_.end(), [](const auto& r) { return !r->begun; }));
  }
  members = with_places(std::move(members));
  const RingShape shape(members, layout_.ring);
  if (shape.segments().empty()) return;
  auto ring = std::make_unique<Ring>(
      NcclGroupSettings{++children_, settings_.version, 0, settings_.seed, true},
      std::move(members), host_, *this);
  ring->parent = &parent;
  ring->begun = false;
  ring->first_rings.resize(ring->group.segments().size());
  ring->rank_of.assign(settings_.ranks.size(), kNobody);
  for (uint32_t r = 0; r < ring->group.members().size(); ++r) {
    ring->rank_of[ring->group.members()[r].world] = r;
  }
  rings_.push_back(std::move(ring));
}

std::vector<uint32_t> NcclCommunicator::Impl::ranks_of(uint32_t communicator) const {
  std::vector<uint32_t> ranks;
  for (const auto& ring : rings_) {
    if (ring->group.settings().number != communicator) continue;
    for (const NcclMember& m : ring->group.members()) ranks.push_back(m.world);
  }
  return ranks;
}

bool NcclCommunicator::Impl::child_ring(NcclGroup& parent, uint32_t real, uint32_t emulated,
                                        const SocketAddress& where) {
  const uint32_t real_world = parent.members()[real].world;
  const uint32_t world = parent.members()[emulated].world;
  for (const auto& ring : rings_) {
    if (ring->parent != &parent || ring->done) continue;
    for (size_t s = 0; s < ring->group.segments().size(); ++s) {
      const RingSegment& segment = ring->group.segments()[s];
      if (ring->group.members()[segment.first].world != real_world ||
          ring->group.members()[segment.before].world != world || ring->first_rings[s]) {
        continue;
      }
      ring->first_rings[s] = where;
      if (!ring->begun) begin_child(*ring);
      dial_ring(*ring, s);
      return true;
    }
  }
  return false;
}

void NcclCommunicator::Impl::begin_child(Ring& ring) {
  ring.begun = true;
  const auto& members = ring.group.members();
  const auto real =
      std::count_if(members.begin(), members.end(), [](const NcclMember& m) { return m.real; });
  host_.say(
      "NCCL: ncclCommSplit makes communicator " + std::to_string(ring.group.settings().number) +
      " of " + std::to_string(members.size()) + " ranks, " + std::to_string(real) +
      " of them real; each emulated rank went where the real one in its place on a node goes");
  if (layout_.one_magic) {
    // Only listeners tell the children of a parent apart.
    ring.own_addresses.resize(members.size());
    for (uint32_t rank = 0; rank < members.size(); ++rank) {
      if (members[rank].real) continue;
      if (!listen(members[rank].world, &ring, false, ring.own_addresses[rank])) return;
    }
  }
  Ring& parent = ring_of(*ring.parent);
  for (const RingSegment& segment : ring.group.segments()) {
    const uint32_t world = members[segment.after].world;
    ring.parent->send(parent.rank_of[world], parent.rank_of[members[segment.last].world],
                      layout_.one_header ? kNewSplitTag : kSplitTagBefore23,
                      ring_info_bytes(layout_, address(ring.group, world)));
  }
}

void NcclCommunicator::Impl::on_accepted(ListenerId listener, StreamId id,
                                         const SocketAddress& from) {
  const auto found = listeners_.find(listener);
  if (found == listeners_.end()) return host_.close(id);
  const bool root = root_ && listener == settings_.root_listener;
  Stream& stream =
      streams_.try_emplace(id, root ? Role::kAtRoot : Role::kUnknown, true).first->second;
  stream.rank = found->second.rank;
  stream.from = from;
  stream.listener = found->second;
}

void NcclCommunicator::Impl::on_connected(StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  host_.send(id, stream.pending);
  if (stream.role == Role::kRing) {
    stream.pending.clear();
    stream.ring->group.ring().open(stream.segment, true);
  } else {
    if (stream.check_in) {
      --checking_in_;
      ++checked_in_;
    }
    drop(id);
    if (!root_) check_in_more();
  }
  clean_up();
}

void NcclCommunicator::Impl::on_bytes(StreamId id, std::span<const uint8_t> bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = found->second;
  stream.reader.feed(bytes);
  while (failure_.empty()) {
    const FrameReader::Event event = stream.reader.next();
    if (event.kind == FrameReader::kNone || !handle(id, stream, event)) break;
  }
  clean_up();
}

void NcclCommunicator::Impl::on_closed(StreamId id, const std::string& why) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const Stream& stream = found->second;
  const std::string reason = why.empty() ? "" : ": " + why;
  if (stream.role == Role::kSendOnce) {
    failed(stream.what + " did not get there" + reason);
  } else if (stream.role == Role::kRing) {
    Ring& ring = *stream.ring;
    const RingSegment& s = ring.group.segments()[stream.segment];
    const uint32_t rank = stream.first ? s.first : s.last;
    if (!stream.reader.at_boundary() || !ring.group.at_rest(stream.segment, rank)) {
      std::vector<std::string> lines;
      ring.group.waiting(lines);
      failed("rank " + std::to_string(rank) + " has closed its connection on the ring" +
             ring.group.name() + reason + (lines.empty() ? "" : "; " + lines.front()));
    } else {
      ring.ends[2 * stream.segment + (stream.first ? 0 : 1)].closed = true;
      close_if_done(ring);
    }
  } else if (stream.identified) {
    failed("a connection from " + stream.from.text() + " to rank " + std::to_string(stream.rank) +
           " ended in the middle of " +
           (stream.role == Role::kAtRoot       ? "a check-in"
            : stream.role == Role::kRootAnswer ? "the root's answer"
                                               : "a message") +
           reason);
  }
  streams_.erase(id);
  clean_up();
}

void NcclCommunicator::Impl::close_if_done(Ring& ring) {
  if (!std::all_of(ring.ends.begin(), ring.ends.end(), [](const auto& e) { return e.closed; })) {
    return;
  }
  ring.done = true;
  ring.group.disconnect();
  std::erase_if(listeners_, [&](const auto& l) {
    if (l.second.only != &ring) return false;
    host_.stop_listening(l.first);
    return true;
  });
  finished_ =
      std::all_of(rings_.begin(), rings_.end(), [](const auto& r) { return r->done || !r->begun; });
}

void NcclCommunicator::Impl::on_connector_ready(const NcclConnector& connector) {
  if (!failure_.empty()) return;
  for (const auto& ring : rings_) {
    if (ring->group.settings().number == connector.communicator) {
      ring->group.connector_ready(connector);
    }
  }
  clean_up();
}

void NcclCommunicator::Impl::on_connector_failed(const NcclConnector& connector,
                                                 const std::string& why) {
  // One that stood has just ended, as they do with their real rank.
  const bool wanted = std::any_of(rings_.begin(), rings_.end(), [&](const auto& ring) {
    return ring->group.settings().number == connector.communicator &&
           ring->group.connecting(connector);
  });
  if (!wanted || !failure_.empty()) return;
  failed("net_ib's connection between ranks " +
         std::to_string(connector.real_sends ? connector.real : connector.emulated) + " and " +
         std::to_string(connector.real_sends ? connector.emulated : connector.real) +
         " on channel " + std::to_string(connector.channel) + ": " + why);
  clean_up();
}

std::vector<std::string> NcclCommunicator::Impl::waiting() const {
  std::vector<std::string> lines;
  if (!failure_.empty()) return {failure_};
  if (finished_) return {"all real ranks have left"};
  if (root_) {
    std::vector<uint32_t> missing = root_->missing();
    if (!missing.empty())
      lines.push_back("the root waits for " + ranks_text(missing) + " to check in");
  } else if (answered_ < emulated_) {
    std::vector<uint32_t> ranks;
    for (uint32_t r = 0; r < settings_.ranks.size(); ++r) {
      if (!settings_.ranks[r].real && !was_answered_[r]) ranks.push_back(r);
    }
    lines.push_back(std::to_string(checked_in_) + " of " + std::to_string(emulated_) +
                    " emulated ranks have checked in at the root, " + settings_.id.root.text() +
                    "; not answered yet: " + ranks_text(ranks) +
                    (checked_in_ == emulated_ ? " (it waits for all ranks, and cannot read those "
                                                "of another release)"
                                              : ""));
  }
  for (const auto& ring : rings_) {
    if (ring->done || !ring->begun) continue;
    for (size_t s = 0; s < ring->group.segments().size(); ++s) {
      const RingSegment& segment = ring->group.segments()[s];
      if (!ring->group.ring().is_open(s, true)) {
        lines.push_back("rank " + std::to_string(segment.before) +
                        (ring->ends[2 * s].asked ? " connects to" : " does not know yet") +
                        " the ring of rank " + std::to_string(segment.first) + ring->group.name());
      }
      if (!ring->group.ring().is_open(s, false)) {
        lines.push_back("rank " + std::to_string(segment.after) + " waits for rank " +
                        std::to_string(segment.last) + " to connect its ring" + ring->group.name());
      }
    }
    ring->group.waiting(lines);
  }
  if (lines.empty()) lines.push_back("nothing: all that real ranks have begun is answered");
  return lines;
}

std::vector<uint32_t> NcclCommunicator::ranks_of(uint32_t communicator) const {
  return impl_->ranks_of(communicator);
}

NcclCommunicator::NcclCommunicator(NcclCommunicatorSettings settings, NcclHost& host)
    : impl_(std::make_unique<Impl>(std::move(settings), host)) {}
NcclCommunicator::~NcclCommunicator() = default;
void NcclCommunicator::start(Time) {
  impl_->start();
  impl_->clean_up();
}
void NcclCommunicator::on_accepted(Time, ListenerId listener, StreamId stream,
                                   const SocketAddress& from) {
  impl_->on_accepted(listener, stream, from);
}
void NcclCommunicator::on_connected(Time, StreamId stream) { impl_->on_connected(stream); }
void NcclCommunicator::on_bytes(Time, StreamId stream, std::span<const uint8_t> bytes) {
  impl_->on_bytes(stream, bytes);
}
void NcclCommunicator::on_closed(Time, StreamId stream, const std::string& why) {
  impl_->on_closed(stream, why);
}
void NcclCommunicator::on_connector_ready(Time, const NcclConnector& connector) {
  impl_->on_connector_ready(connector);
}
void NcclCommunicator::on_connector_failed(Time, const NcclConnector& connector,
                                           const std::string& why) {
  impl_->on_connector_failed(connector, why);
}
const std::string& NcclCommunicator::failure() const { return impl_->failure(); }
bool NcclCommunicator::finished() const { return impl_->finished(); }
std::vector<std::string> NcclCommunicator::waiting() const { return impl_->waiting(); }

}  // namespace understudy
