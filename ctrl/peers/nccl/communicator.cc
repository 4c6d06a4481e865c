#include "ctrl/peers/nccl/communicator.h"

#include <algorithm>

#include "ctrl/peers/nccl/communicator_impl.h"

namespace understudy {
namespace {

/// Check-ins at a real rank's root that are under way at once: it takes them one by one.
constexpr uint32_t kCheckInsAtOnce = 64;

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
  rings_.push_back(
      std::make_unique<Ring>(NcclGroupSettings{settings_.number, settings_.version,
                                               settings_.id.magic, settings_.seed, false},
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

std::vector<NcclCommunicator::Child> NcclCommunicator::children() const {
  return impl_->children();
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
void NcclCommunicator::on_relayed(Time, const NcclConnector& connector,
                                  std::span<const uint8_t> bytes) {
  impl_->on_relayed(connector, bytes);
}
const std::string& NcclCommunicator::failure() const { return impl_->failure(); }
bool NcclCommunicator::all_checked_in() const { return impl_->all_checked_in(); }
bool NcclCommunicator::begun() const { return impl_->begun(); }
bool NcclCommunicator::finished() const { return impl_->finished(); }
std::vector<uint32_t> NcclCommunicator::left() const { return impl_->left(); }
std::vector<std::string> NcclCommunicator::waiting() const { return impl_->waiting(); }

uint32_t NcclCommunicator::search_channels() const { return impl_->search_channels(); }

}  // namespace understudy
