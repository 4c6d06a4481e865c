// Exact payload: what emulated ranks send is computed when a packet leaves.
#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/collective/emulated_ranks.h"
#include "dataplane/collective/wire_lines.h"

namespace understudy {

void EmulatedRanks::Contents::fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const {
  all_.fill(link_, place_of_id(cookie), offset, out);
}

void EmulatedRanks::fill(uint32_t link, const CollectivePlace& place, uint64_t offset,
                         std::span<uint8_t> out) {
  // A packet sent again may leave when its operation is over; its receiver has the bytes already.
  if (place.operation < first_) {
    std::ranges::fill(out, uint8_t{0});
    return;
  }
  const CollectiveShape::Use& use = job_.operations[place.operation]->uses[link];
  const auto data = [&](uint64_t from, std::span<uint8_t> part) {
    values_->received(this,
                      {place.operation, job_.links[link].real, use.real, place.message,
                       static_cast<uint32_t>(from)},
                      part);
  };
  const WireLines lines(job_.connection(place.operation, link).protocol);
  if (lines.plain()) return data(offset, out);
  lines.write(job_.message(place.operation, link, place.message).data,
              connections_.sender(link).flag(flight(place.operation).base[link] + place.message),
              offset, out, data);
}

/// Of what emulated ranks receive, messages of real ranks lie in the memory that these write to.
const uint8_t* EmulatedRanks::read(const ExactValues::Place& place, std::span<uint8_t> room) const {
  const uint32_t link = job_.operations[place.operation]->links[place.rank].at(place.connection);
  if (link == RankLinks::kNone) return nullptr;
  DEBUG_ASSERT_INVARIANT(job_.links[link].real_sends);
  const uint64_t number = flight(place.operation).base[link] + place.message;
  // The number of messages that are kept is reckoned (CollectiveConnection::kept): a value of
  // another message must not pass for right.
  if (!connections_.receiver(link).holds(number)) ++progress_.violations;
  const uint64_t slot = connections_.receiver(link).slot(number);
  const uint8_t* message = links_[link].memory + slot * job_.links[link].slot_bytes;
  const WireLines lines(job_.connection(place.operation, link).protocol);
  if (lines.plain()) return message + place.at;
  lines.read(message, place.at, room);
  return room.data();
}

}  // namespace understudy
