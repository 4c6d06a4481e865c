// Exact payload: what emulated ranks send is computed when a packet leaves.
#include <cstring>

#include "dataplane/base/assert.h"
#include "dataplane/collective/emulated_ranks.h"

namespace understudy {

/// Finds which emulated ranks lie behind a link to a real one, and where their values come from.
void EmulatedRanks::chain(uint32_t link) {
  const CollectiveConnection& to = job_.links[link];
  ASSERT_INVARIANT(job_.exact && !to.real_sends && !to.among_real());
  ExactRing& ring = links_[link].ring;
  ring = {job_.collective, job_.root, job_.ranks(), to.real, 0, job_.seed};
  uint32_t before = ring.previous(to.real);
  for (; !job_.is_real(before); before = ring.previous(before)) ++ring.emulated;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const CollectiveConnection& from = job_.links[l];
    if (from.among_real() || !from.real_sends || from.real != before) continue;
    if (from.channel == to.channel) links_[link].partner = l;
  }
}

void EmulatedRanks::Contents::fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const {
  all_.fill(link_, place_of_id(cookie), offset, out);
}

/// Fills in what the chain of emulated ranks makes of its start: that is the contribution of one of
/// them, or what the real rank before them sent.
void EmulatedRanks::fill(uint32_t link, const CollectivePlace& place, uint64_t offset,
                         std::span<uint8_t> out) const {
  const Link& l = links_[link];
  // A packet sent again may leave when its operation is over; its receiver has the bytes already.
  if (place.operation != l.base_operation || place.operation < first_) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  const Connection& c = job_.connection(place.operation, link);
  const uint32_t hops = l.ring.hops(job_.links[link].far, c, place.message);
  if (hops >= l.ring.emulated) {
    const Link& from = links_[l.partner];
    const uint64_t source = l.base + place.message - l.ring.round(c);
    const uint64_t slot = connections_.receiver(l.partner).slot(source);
    std::memcpy(out.data(), from.memory + slot * job_.links[l.partner].slot_bytes + offset,
                out.size());
  }
  const Message message = job_.message(place.operation, link, place.message);
  l.ring.make(hops, job_.operations[place.operation]->bytes, message.offset + offset, out);
}

}  // namespace understudy
