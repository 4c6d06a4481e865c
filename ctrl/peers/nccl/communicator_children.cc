// Communicators that are split off others: their rings, and their end.
#include <algorithm>
#include <set>

#include "ctrl/peers/nccl/communicator_impl.h"

namespace understudy {
namespace {

/// ncclCommSplits that no real rank has gone on with; others of that size than splits may be taken
/// for one.
constexpr size_t kChildrenNotBegun = 16;

}  // namespace

std::vector<NcclMember> with_places(std::vector<NcclMember> members) {
  std::map<uint32_t, uint32_t> count;
  for (NcclMember& m : members) m.local = count[m.node]++;
  for (NcclMember& m : members) m.node_ranks = count[m.node];
  return members;
}

std::optional<RankPartition> NcclCommunicator::Impl::configured_child() {
  if (begun_children_ >= settings_.groups.size()) return std::nullopt;
  return settings_.groups[begun_children_++];
}

void NcclCommunicator::Impl::child(NcclGroup& parent, std::vector<NcclMember> members,
                                   std::string made_by, std::string reason) {
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
      NcclGroupSettings{settings_.number + ++children_, settings_.version, 0, settings_.seed, true},
      std::move(members), host_, *this);
  ring->parent = &parent;
  ring->begun = false;
  ring->made_by = std::move(made_by);
  ring->reason = std::move(reason);
  ring->first_rings.resize(ring->group.segments().size());
  ring->rank_of.assign(settings_.ranks.size(), kNobody);
  for (uint32_t r = 0; r < ring->group.members().size(); ++r) {
    ring->rank_of[ring->group.members()[r].world] = r;
  }
  rings_.push_back(std::move(ring));
}

std::vector<NcclCommunicator::Child> NcclCommunicator::Impl::children() const {
  std::vector<Child> all;
  for (const auto& ring : rings_) {
    if (ring->parent == nullptr || !ring->begun) continue;
    const NcclGroup& group = ring->group;
    Child& child = all.emplace_back();
    child.number = group.settings().number;
    for (const NcclMember& m : group.members()) child.ranks.push_back(m.world);
    child.magic = group.settings().magic;
    child.search_channels = group.search_channels();
    child.over = ring->done;
  }
  return all;
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
  host_.say("NCCL: " + ring.made_by + " makes communicator " +
            std::to_string(ring.group.settings().number) + " of " + std::to_string(members.size()) +
            " ranks, " + std::to_string(real) + " of them real; " + ring.reason);
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
                      split_tag(layout_), ring_info_bytes(layout_, address(ring.group, world)));
  }
}

std::vector<uint32_t> NcclCommunicator::Impl::left() const {
  const Ring& ring = *rings_.front();
  std::set<uint32_t> ranks;
  for (size_t s = 0; s < ring.group.segments().size(); ++s) {
    if (ring.ends[2 * s].closed) ranks.insert(ring.group.segments()[s].first);
    if (ring.ends[2 * s + 1].closed) ranks.insert(ring.group.segments()[s].last);
  }
  return {ranks.begin(), ranks.end()};
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

}  // namespace understudy
