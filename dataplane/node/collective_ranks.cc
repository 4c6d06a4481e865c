#include "dataplane/node/collective_ranks.h"

#include <algorithm>
#include <cstring>

namespace understudy {

CollectiveRanks::CollectiveRanks(const CollectiveJob& job, Own own, CollectiveProgress& progress,
                                 const Memory& memory)
    : job_(job),
      own_(own),
      progress_(progress),
      memory_(memory),
      ring_{job.ranks(), job.real[own.first], 0, job.seed},
      links_(job.links.size()),
      operation_(job.real.size()),
      clocks_(job.real.size()),
      entry_(job.real.size(), Time::never()),
      queued_(job.real.size()) {
  for (uint32_t l = 0; l < links_.size(); ++l) ends_.emplace_back(*this, l);
  for (uint32_t rank = 0; job.exact && rank < job.ranks(); ++rank) {
    seeds_.push_back(job.is_real(rank) ? memory_.input_seed : job.seed);
  }
  work_.reserve(job.real.size());
  leaving_.reserve(job.links.size());
  const size_t most = std::min(job.operations.size(), CollectiveJob::kInFlight);
  flights_.resize(most);
  for (Flight& flight : flights_) {
    flight.parts.resize(job.real.size());
    for (const CollectiveShape* shape : job.operations) {
      for (uint32_t r = own.first; r < own.end; ++r) {
        std::vector<Side>& sides = flight.parts[r].sides;
        sides.resize(std::max(sides.size(), shape->real[r]->connections().size()));
      }
    }
  }
}

void CollectiveRanks::on_wake(Time now, uint64_t cookie) {
  const auto index = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 60)) {
    case WakeKind::kStart:
      for (uint32_t r = own_.first; r < own_.end && !flights_.empty(); ++r) {
        schedule_entry(std::max(now, job_.start), r);
      }
      break;
    case WakeKind::kEnter:
      enter(now, index);
      break;
    case WakeKind::kUsable:
      usable(now, index);
      break;
    case WakeKind::kInside:
      hear_inside(now, cookie >> 32 & 0xfffffff, index >> 16, index & 0xffff, true);
      break;
  }
}

/// Of the next operation; the one before was done at `done`.
void CollectiveRanks::schedule_entry(Time done, uint32_t real) {
  const EntryStep& step = job_.step(job_.real[real], operation_[real]);
  host_->wake_at(clocks_[real].enter(step, done), *this, cookie(WakeKind::kEnter, real));
}

void CollectiveRanks::begin(size_t operation) {
  Flight& f = flight(operation);
  f.ranks_left = own_.end - own_.first;
  for (uint32_t r = own_.first; r < own_.end; ++r) {
    Part& part = f.parts[r];
    std::fill(part.sides.begin(), part.sides.end(), Side{});
    part.left = 0;
    part.inside = false;
    part.ways_out = job_.inside ? ways_out(schedule(operation, r)) : 0;
    for (const Connection& c : schedule(operation, r).connections()) part.left += c.messages;
  }
  ++begun_;
}

void CollectiveRanks::enter(Time now, uint32_t real) {
  const size_t operation = operation_[real];
  if (operation >= first_ + CollectiveJob::kInFlight) {
    entry_[real] = now;
    return;
  }
  if (operation == begun_) begin(operation);
  Part& part = flight(operation).parts[real];
  part.inside = true;
  CollectiveResult& result = progress_.results[operation];
  result.entry = std::min(result.entry, now);
  result.end = std::max(result.end, now);
  if (job_.exact) {
    const Pattern own(memory_.input_seed, ring_.real);
    const size_t count = job_.operations[operation]->bytes / sizeof(float);
    for (size_t i = 0; i < count; ++i) memory_.data[i] = own.at(i);
  }
  if (part.left == 0) return complete(now, operation, real);
  const std::vector<Connection>& all = schedule(operation, real).connections();
  for (uint32_t c = 0; c < all.size(); ++c) {
    if (all[c].direction != Direction::kReceive || !all[c].network) continue;
    const uint64_t first = std::min<uint64_t>(all[c].window, all[c].messages);
    NcclReceiver& receiver = links_[link_of(operation, real, c)].receiver;
    for (uint64_t k = 0; k < first; ++k) receiver.grant(now, *host_, all[c].capacity);
  }
  settle(now, operation, real);
}

void CollectiveRanks::queue(uint32_t real) {
  if (queued_[real] != 0) return;
  queued_[real] = 1;
  work_.push_back(real);
}

/// Of what leaves at one moment credits go first, as those of emulated ranks.
void CollectiveRanks::settle(Time now, size_t operation, uint32_t real) {
  queue(real);
  while (!work_.empty()) {
    const uint32_t next = work_.back();
    work_.pop_back();
    queued_[next] = 0;
    while (advance(now, operation, next)) {
    }
  }
  for (const uint32_t link : leaving_) {
    links_[link].leaves = false;
    send_ready(now, link);
  }
  leaving_.clear();
}

/// False if this rank can do nothing.
bool CollectiveRanks::advance(Time now, size_t operation, uint32_t real) {
  Part& part = flight(operation).parts[real];
  if (!part.inside || part.left == 0) return false;
  const std::vector<Connection>& all = schedule(operation, real).connections();
  bool progress = false;
  for (uint32_t c = 0; c < all.size(); ++c) {
    const uint32_t joint = all[c].joint;
    if (joint == 0) {
      if (!ready(operation, real, c)) continue;
      done(now, operation, real, c);
      progress = true;
      continue;
    }
    // One primitive: all its connections or none; the first of them stands for it.
    bool first = true, can = true;
    for (uint32_t d = 0; d < all.size() && first && can; ++d) {
      if (all[d].joint != joint) continue;
      first = d >= c;
      can = ready(operation, real, d);
    }
    if (!first || !can) continue;
    for (uint32_t d = c; d < all.size(); ++d) {
      if (all[d].joint == joint) done(now, operation, real, d);
    }
    progress = true;
  }
  if (part.left == 0) complete(now, operation, real);
  return progress && part.left > 0;
}

/// Whether the kernel can be done with the next message of the connection now.
bool CollectiveRanks::ready(size_t operation, uint32_t real, uint32_t connection) {
  const RankSchedule& s = schedule(operation, real);
  const std::vector<Side>& sides = flight(operation).parts[real].sides;
  const std::vector<Connection>& all = s.connections();
  const Connection& c = all[connection];
  const Side& side = sides[connection];
  if (side.done == c.messages) return false;
  if (c.direction == Direction::kReceive && side.arrived <= side.done) return false;
  if (c.direction == Direction::kSend && side.done >= side.acked + c.window) return false;
  for (const Wait& wait : s.waits(connection, side.done)) {
    const Side& other = sides[wait.connection];
    if (wait.moment == Wait::Moment::kArrival) {
      if (other.arrived <= wait.message) return false;
    } else if (c.joint == 0 || all[wait.connection].joint != c.joint) {
      if (other.done <= wait.message) return false;
    }
  }
  return true;
}

void CollectiveRanks::done(Time now, size_t operation, uint32_t real, uint32_t connection) {
  const Connection& c = schedule(operation, real).connections()[connection];
  Part& part = flight(operation).parts[real];
  const uint64_t k = part.sides[connection].done++;
  --part.left;
  if (!c.network) return pass_inside(now, operation, real, connection, k);
  const uint32_t link = link_of(operation, real, connection);
  if (c.direction == Direction::kSend) {
    if (job_.exact) fill_slot(link, schedule(operation, real).message(connection, k));
    ++links_[link].due;
    if (!links_[link].leaves) leaving_.push_back(link);
    links_[link].leaves = true;
  } else if (k + c.window < c.messages) {
    links_[link].receiver.grant(now, *host_, c.capacity);
  }
}

/// To another rank of the node: a message, or that its buffer is free again.
void CollectiveRanks::pass_inside(Time now, size_t operation, uint32_t real, uint32_t connection,
                                  uint64_t k) {
  const RankSchedule& s = schedule(operation, real);
  const FarEnd& far = job_.operations[operation]->far[real][connection];
  const uint32_t other = job_.real_index[far.rank];
  if (!job_.inside) return hear_inside(now, operation, other, far.connection, false);
  Time at = now;
  if (s.connections()[connection].direction == Direction::kSend) {
    Part& part = flight(operation).parts[real];
    Time& free = part.sides[connection].way_free;
    free = std::max(now, free) +
           job_.inside->rate.time_for(uint64_t{s.message(connection, k).wire} * part.ways_out);
    at = free;
  }
  host_->wake_at(at + job_.inside->latency, *this, inside_cookie(operation, other, far.connection));
}

void CollectiveRanks::hear_inside(Time now, size_t operation, uint32_t real, uint32_t connection,
                                  bool alone) {
  if (operation < first_) return;  // a buffer is free that nobody needs any more
  Side& side = flight(operation).parts[real].sides[connection];
  const bool sends =
      schedule(operation, real).connections()[connection].direction == Direction::kSend;
  ++(sends ? side.acked : side.arrived);
  if (alone) return settle(now, operation, real);
  queue(real);
}

/// Messages leave from slots of their own, as from NCCL's buffers: the next operation may begin
/// while they are on their way.
void CollectiveRanks::fill_slot(uint32_t link, const Message& message) {
  std::memcpy(memory_.sent[link] + slot_offset(link, links_[link].due),
              reinterpret_cast<const uint8_t*>(memory_.data.data()) + message.offset, message.data);
}

void CollectiveRanks::send_ready(Time now, uint32_t link) {
  Link& l = links_[link];
  CollectivePlace place;
  while (l.sent < l.due && l.sending.at(job_, link, place)) {
    const Message message = job_.message(place.operation, link, place.message);
    PayloadRef payload;
    if (job_.exact) {
      payload.bytes = memory_.sent[link];
      payload.offset = slot_offset(link, l.sent);
    }
    if (!l.sender.send(now, *host_, l.sent, message.wire, payload, message_id(place))) return;
    progress_.results[place.operation].bytes_sent += message.wire;
    ++l.sent;
    l.sending.step();
  }
}

void CollectiveRanks::End::on_received(Time now, Qp& qp, const Received& message) {
  if (all_.job_.links[link_].real_sends) return all_.send_ready(now, link_);
  all_.links_[link_].receiver.received(qp, message,
                                       [&](uint32_t bytes) { all_.on_data(now, link_, bytes); });
}

void CollectiveRanks::on_data(Time now, uint32_t link, uint32_t bytes) {
  Link& l = links_[link];
  CollectivePlace place;
  if (l.received == l.receiver.granted() || !l.receiving.at(job_, link, place)) {
    ++progress_.violations;
    return;
  }
  ++l.received;
  l.receiving.step();
  CollectiveResult& result = progress_.results[place.operation];
  result.bytes_received += bytes;
  if (bytes != job_.message(place.operation, link, place.message).wire) ++result.size_mismatches;
  if (job_.step_cost == Duration()) return usable(now, link);
  host_->wake_at(now + job_.step_cost, *this, cookie(WakeKind::kUsable, link));
}

void CollectiveRanks::usable(Time now, uint32_t link) {
  Link& l = links_[link];
  CollectivePlace place;
  l.using_.at(job_, link, place);
  l.using_.step();
  const uint32_t real = job_.real_index[job_.links[link].real];
  Side& side =
      flight(place.operation).parts[real].sides[job_.operations[place.operation]->uses[link].real];
  if (job_.exact) take_in(link, place);
  ++l.used;
  ++side.arrived;
  settle(now, place.operation, real);
}

/// Reduces a message into the buffer, or copies it there if it holds a final result.
void CollectiveRanks::take_in(uint32_t link, const CollectivePlace& place) {
  const Message message = job_.message(place.operation, link, place.message);
  const Link& l = links_[link];
  const uint8_t* data =
      memory_.received[link] + uint64_t{l.receiver.slot(l.used)} * job_.links[link].slot_bytes;
  float* own = memory_.data.data() + message.offset / sizeof(float);
  const bool reduce =
      ring_.step(job_.connection(place.operation, link), place.message) + 1 < ring_.ranks;
  for (size_t i = 0; i < message.data / sizeof(float); ++i) {
    float v;
    std::memcpy(&v, data + i * sizeof v, sizeof v);
    own[i] = reduce ? v + own[i] : v;
  }
}

void CollectiveRanks::End::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    all_.progress_.failed = true;
  } else if (all_.job_.links[link_].real_sends) {
    all_.links_[link_].sender.acknowledged(
        qp, id, [&](uint64_t message) { all_.on_acknowledged(now, link_, place_of_id(message)); });
  }
}

void CollectiveRanks::on_acknowledged(Time now, uint32_t link, const CollectivePlace& place) {
  const size_t operation = place.operation;
  if (operation < first_) return;  // all ranks have done with it
  const uint32_t real = job_.real_index[job_.links[link].real];
  ++flight(operation).parts[real].sides[job_.operations[operation]->uses[link].real].acked;
  settle(now, operation, real);
}

void CollectiveRanks::complete(Time now, size_t operation, uint32_t real) {
  CollectiveResult& result = progress_.results[operation];
  result.end = std::max(result.end, now);
  if (job_.exact) progress_.results[operation].wrong_elements = wrong_elements(operation);
  --flight(operation).ranks_left;
  if (++operation_[real] < job_.operations.size()) schedule_entry(now, real);
  const size_t before = first_;
  while (first_ < begun_ && flight(first_).ranks_left == 0) ++first_;
  if (first_ == before) return;
  progress_.finished.store(static_cast<uint32_t>(first_), std::memory_order_release);
  for (uint32_t r = own_.first; r < own_.end; ++r) {
    if (entry_[r].is_never()) continue;
    entry_[r] = Time::never();
    host_->wake_at(now, *this, cookie(WakeKind::kEnter, r));
  }
}

/// Chunk k of a loop is first sent by rank k + 1 and grows by one contribution a hop (nccl-wire
/// 3.10): what this rank sends in its first n steps are all chunks.
uint64_t CollectiveRanks::wrong_elements(size_t operation) const {
  const RankSchedule& s = schedule(operation, own_.first);
  uint64_t wrong = 0;
  for (uint32_t c = 0; c < s.connections().size(); ++c) {
    const Connection& connection = s.connections()[c];
    if (connection.direction != Direction::kSend) continue;
    for (uint64_t k = 0; k < connection.messages; ++k) {
      const uint32_t step = ring_.step(connection, k);
      if (step >= ring_.ranks) continue;
      const Message message = s.message(c, k);
      const uint64_t first = message.offset / sizeof(float);
      wrong += ring_.wrong((ring_.real + ring_.ranks - step) % ring_.ranks, first,
                           memory_.data.subspan(first, message.data / sizeof(float)), seeds_);
    }
  }
  return wrong;
}

}  // namespace understudy
