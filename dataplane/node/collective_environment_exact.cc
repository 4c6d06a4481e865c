// Exact payload: what emulated ranks send is computed when a packet leaves.
#include <cstring>

#include "dataplane/node/collective_environment.h"

namespace understudy {

/// Of exact payload: which emulated ranks lie behind a link to a real one, and where their values
/// come from.
void CollectiveEnvironment::chain(uint32_t link) {
  const CollectiveLink& to = job_.links[link];
  ExactRing& ring = links_[link].ring;
  ring = {job_.ranks(), to.real, 0, job_.seed};
  uint32_t before = ring.previous(to.real);
  for (; !job_.is_real(before); before = ring.previous(before)) ++ring.emulated;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const CollectiveLink& from = job_.links[l];
    if (from.among_real() || !from.real_sends || from.real != before) continue;
    if (from.channel == to.channel) links_[link].partner = l;
  }
}

void CollectiveEnvironment::End::fill(uint64_t cookie, uint64_t offset,
                                      std::span<uint8_t> out) const {
  all_.fill(link_, place_of_id(cookie), offset, out);
}

/// What the chain of emulated ranks makes of its start, which is the oldest of them or what the
/// real rank before them sent.
void CollectiveEnvironment::fill(uint32_t link, const CollectivePlace& place, uint64_t offset,
                                 std::span<uint8_t> out) const {
  const Link& l = links_[link];
  // A packet sent again may leave when its operation is over; its receiver has the bytes already.
  if (place.operation != l.base_operation || place.operation < first_) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  const Connection& c = job_.connection(place.operation, link);
  const uint32_t step = l.ring.step(c, place.message);
  if (step >= l.ring.emulated) {
    const Link& from = links_[l.partner];
    const uint64_t source = l.base + place.message - l.ring.round(c);
    std::memcpy(out.data(),
                from.memory +
                    uint64_t{from.receiver.slot(source)} * job_.links[l.partner].slot_bytes +
                    offset,
                out.size());
  }
  const Message message = job_.message(place.operation, link, place.message);
  l.ring.reduce(step, (message.offset + offset) / sizeof(float), out);
}

}  // namespace understudy
