// Exact payload of the ranks on a reference node: what they send is made of what has come, as it
// came; what has come, and their results, are compared with what must be there when all ranks do
// the same.
#include <algorithm>
#include <cstring>
#include <map>

#include "dataplane/base/assert.h"
#include "dataplane/collective/reference_ranks.h"

namespace understudy {

ReferenceRanks::SentRoom ReferenceRanks::sent_room(const CollectiveJob& job, uint32_t link) {
  SentRoom room;
  std::map<const CollectiveShape*, uint64_t> windows;
  uint64_t all = 0, most = 0;
  for (size_t o = 0; o < job.operations.size(); ++o) {
    const auto [known, fresh] = windows.try_emplace(job.operations[o], 0);
    if (fresh && job.messages(o, link) > 0) {
      const uint64_t messages = job.messages(o, link);
      known->second = std::min<uint64_t>(job.connection(o, link).window, messages);
      for (uint64_t k = 0; k < messages; ++k) {
        room.bytes = std::max<uint64_t>(room.bytes, job.message(o, link, k).data);
      }
    }
    all += known->second;
    most = std::max(most, known->second);
  }
  // Who hears of all others before it is done with an operation is at most one ahead of them.
  const bool ahead = is_pipeline(job.collective) || is_p2p(job.collective);
  room.slots = std::max<uint64_t>(1, ahead ? all : most * job.in_flight);
  return room;
}

/// Room for all values: nothing is allocated when an operation begins.
void ReferenceRanks::prepare_values() {
  std::vector<uint64_t> seeds(job_.ranks(), job_.seed);
  for (const uint32_t rank : job_.real) seeds[rank] = memory_.input_seed;
  values_ = std::make_unique<ExactValues>(job_, std::move(seeds));
  own_values_.resize(own_.end - own_.first);
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (!job_.links[l].real_sends || memory_.sent[l] == nullptr) continue;
    links_[l].room = sent_room(job_, l);
    links_[l].data.resize(links_[l].room.slots);
    links_[l].protocols.resize(links_[l].room.slots);
  }
  for (Flight& f : flights_) {
    f.base.resize(links_.size());
    f.inside.resize(own_values_.size());
  }
  for (const auto& [shape, parts] : parts_) {
    for (uint32_t r = own_.first; r < own_.end; ++r) prepare_values(*shape->real[r], r);
  }
}

void ReferenceRanks::prepare_values(const RankSchedule& own, uint32_t real) {
  const auto grow = [](std::vector<uint8_t>& room, uint64_t bytes) {
    if (room.size() < bytes) room.resize(bytes);
  };
  Values& values = own_values_[real - own_.first];
  const std::vector<Connection>& all = own.connections();
  if (values.came.size() < all.size()) values.came.resize(all.size());
  for (uint32_t c = 0; c < all.size(); ++c) {
    if (all[c].direction != Direction::kReceive) continue;
    uint64_t most = 0;
    for (uint64_t k = 0; k < all[c].messages; ++k) {
      most = std::max<uint64_t>(most, own.message(c, k).data);
      for (uint32_t i = 0; i < own.result_parts(c, k); ++i) {
        const ValuePart part = own.result_part(c, k, i);
        grow(values.result, part.to + part.bytes);
        grow(right_, part.bytes);
      }
    }
    grow(seen_, most);
    grow(right_, most);
    if (own.names_old_messages()) {
      grow(values.came[c], all[c].messages * most);
    } else if (!all[c].network) {
      for (Flight& f : flights_) {
        auto& inside = f.inside[real - own_.first];
        if (inside.size() < all.size()) inside.resize(all.size());
        grow(inside[c], all[c].window * most);
      }
    }
  }
}

/// A message that is filled: over the network it leaves from a slot of its own, as from NCCL's
/// buffers, so that the next operation may begin while it is on its way.
void ReferenceRanks::fill_message(const RankEnd& sender, uint64_t k) {
  const CollectiveShape& shape = *job_.operations[sender.operation];
  const RankSchedule& own = schedule(sender.operation, sender.rank);
  const Connection& c = own.connections()[sender.connection];
  const uint32_t bytes = own.message(sender.connection, k).data;
  uint8_t* out = nullptr;
  if (c.network) {
    const uint32_t link = link_of(sender);
    Link& l = links_[link];
    out = memory_.sent[link] + slot_offset(link, l.due);
    l.data[l.due % l.room.slots] = bytes;
    l.protocols[l.due % l.room.slots] = c.protocol;
  } else {
    const FarEnd& far = shape.far[sender.rank][sender.connection];
    out = inside(sender.operation, far.rank, far.connection, k);
  }
  values_->sent(this, {sender.operation, job_.real[sender.rank], sender.connection, k, 0},
                {out, bytes});
}

/// Where a message from another rank of the node lies.
uint8_t* ReferenceRanks::inside(size_t operation, uint32_t rank, uint32_t connection, uint64_t k) {
  const uint32_t real = job_.real_index[rank];
  std::vector<uint8_t>& room = flight(operation).inside[real - own_.first][connection];
  const uint32_t window = schedule(operation, real).connections()[connection].window;
  return room.data() + k % window * (room.size() / window);
}

WireLines ReferenceRanks::lines(size_t operation, uint32_t link) const {
  return WireLines(job_.connection(operation, link).protocol);
}

/// What a packet carries of a message of LL or LL128, whose flag its credit tells.
void ReferenceRanks::Lines::fill(uint64_t number, uint64_t offset, std::span<uint8_t> out) const {
  const Link& l = all_.links_[link_];
  const uint8_t* data = all_.memory_.sent[link_] + all_.slot_offset(link_, number);
  const uint64_t slot = number % l.room.slots;
  WireLines(l.protocols[slot])
      .write(l.data[slot], l.sender.flag(number), offset, out,
             [&](uint64_t from, std::span<uint8_t> part) {
               std::memcpy(part.data(), data + from, part.size());
             });
}

/// Compares a message that has come with what all ranks' contributions make of it.
void ReferenceRanks::take_in(uint32_t link, const CollectivePlace& place) {
  const uint64_t number = links_[link].used;
  const uint8_t* came = received(link, number);
  const Message message = job_.message(place.operation, link, place.message);
  const uint32_t bytes = message.data;
  const RankEnd end = end_of(place.operation, link);
  const WireLines form = lines(place.operation, link);
  const bool keeps = schedule(place.operation, end.rank).names_old_messages() && bytes > 0;
  if (!keeps && !memory_.verifies) return;
  const std::span<uint8_t> seen(seen_.data(), bytes), right(right_.data(), bytes);
  form.read(came, 0, seen);
  if (memory_.verifies) {
    values_->received(
        nullptr, {place.operation, job_.real[end.rank], end.connection, place.message, 0}, right);
    verify(place.operation, seen, right);
    progress_.results[place.operation].wrong_elements +=
        form.wrong_flags(came, message.wire, links_[link].receiver.flag(number));
  }
  if (!keeps) return;
  std::vector<uint8_t>& all = own_values_[end.rank - own_.first].came[end.connection];
  const uint64_t messages = job_.messages(place.operation, link);
  std::memcpy(all.data() + place.message * (all.size() / messages), seen.data(), bytes);
}

void ReferenceRanks::verify(size_t operation, std::span<const uint8_t> seen,
                            std::span<const uint8_t> right) {
  progress_.results[operation].wrong_elements += count_different(job_.type, seen, right);
}

void ReferenceRanks::on_used(const RankEnd& receiver, uint64_t k) {
  if (!job_.exact || schedule(receiver.operation, receiver.rank).names_old_messages()) return;
  complete(receiver, k);
}

/// Puts what the rank has with a received message into its result. What it has not only copied is
/// compared, too.
void ReferenceRanks::complete(const RankEnd& receiver, uint64_t k) {
  if (!memory_.verifies) return;
  const RankSchedule& own = schedule(receiver.operation, receiver.rank);
  const uint32_t rank = job_.real[receiver.rank];
  Values& values = own_values_[receiver.rank - own_.first];
  for (uint32_t i = 0; i < own.result_parts(receiver.connection, k); ++i) {
    const ValuePart part = own.result_part(receiver.connection, k, i);
    const std::span<uint8_t> result = std::span(values.result).subspan(part.to, part.bytes);
    values_->part(this, receiver.operation, rank, part, 0, result);
    if (!part.own && part.size() == 1) continue;
    const std::span<uint8_t> right(right_.data(), part.bytes);
    values_->part(nullptr, receiver.operation, rank, part, 0, right);
    verify(receiver.operation, result, right);
  }
}

/// Where messages are used in another order than they come, results are made at the end.
void ReferenceRanks::complete_all(uint32_t operation, uint32_t real) {
  const RankSchedule& own = schedule(operation, real);
  if (!own.names_old_messages()) return;
  for (uint32_t c = 0; c < own.connections().size(); ++c) {
    const Connection& connection = own.connections()[c];
    if (connection.direction != Direction::kReceive) continue;
    for (uint64_t k = 0; k < connection.messages; ++k) complete({operation, real, c}, k);
  }
}

/// All that an own rank receives can be read.
const uint8_t* ReferenceRanks::read(const ExactValues::Place& place,
                                    std::span<uint8_t> room) const {
  const uint32_t real = job_.real_index[place.rank];
  const RankSchedule& own = schedule(place.operation, real);
  const Connection& c = own.connections()[place.connection];
  if (own.names_old_messages()) {
    const std::vector<uint8_t>& all = own_values_[real - own_.first].came[place.connection];
    return all.data() + place.message * (all.size() / c.messages) + place.at;
  }
  if (!c.network) {
    const std::vector<uint8_t>& filled =
        flight(place.operation).inside[real - own_.first][place.connection];
    return filled.data() + place.message % c.window * (filled.size() / c.window) + place.at;
  }
  const uint32_t link = job_.operations[place.operation]->links[place.rank].at(place.connection);
  const uint8_t* came = received(link, flight(place.operation).base[link] + place.message);
  const WireLines form(c.protocol);
  if (form.plain()) return came + place.at;
  form.read(came, place.at, room);
  return room.data();
}

}  // namespace understudy
