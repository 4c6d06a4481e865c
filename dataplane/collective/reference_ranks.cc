#include "dataplane/collective/reference_ranks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

ReferenceRanks::ReferenceRanks(const CollectiveJob& job, CollectiveState& state, Own own,
                               CollectiveProgress& progress, const Memory& memory)
    : job_(job),
      state_(state),
      own_(own),
      progress_(progress),
      memory_(memory),
      ring_{job.collective, job.root, job.ranks(), job.real[own.first], 0, job.seed},
      links_(job.links.size()),
      program_(*this, static_cast<uint32_t>(job.real.size()), CollectiveJob::kInFlight, job.inside),
      flights_(std::min(job.operations.size(), CollectiveJob::kInFlight)),
      operation_(job.real.size()),
      entry_(job.real.size(), Time::never()) {
  ASSERT_INVARIANT(own.first < own.end && own.end <= job.real.size());
  ASSERT_INVARIANT(!job.exact || own.end - own.first == 1);  // `data` is one rank's buffer
  ASSERT_INVARIANT(state.workload != nullptr);
  for (uint32_t l = 0; l < links_.size(); ++l) ends_.emplace_back(*this, l);
  for (uint32_t rank = 0; job.exact && rank < job.ranks(); ++rank) {
    seeds_.push_back(job.is_real(rank) ? memory_.input_seed : job.seed);
  }
  leaving_.reserve(job.links.size());
  prepare();
}

/// Everything that an operation's program needs: nothing is allocated when one begins.
void ReferenceRanks::prepare() {
  for (const CollectiveShape* shape : job_.operations) {
    const auto [it, fresh] = parts_.try_emplace(shape);
    if (!fresh) continue;
    for (uint32_t r = own_.first; r < own_.end; ++r) {
      std::vector<FarEnd> far = shape->far[r];
      for (FarEnd& end : far) end.rank = job_.real_index[end.rank];
      it->second.emplace_back(*shape->real[r], std::move(far), RankPart::Order::kByConnection);
      program_.reserve(r, it->second.back());
    }
  }
}

void ReferenceRanks::on_wake(Time now, uint64_t cookie) {
  const auto index = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 60)) {
    case WakeKind::kStart:
      for (uint32_t r = own_.first; r < own_.end && !flights_.empty(); ++r) {
        state_.workload->listen(state_.group, job_.real[r], *this);
        state_.workload->begin(state_.group, job_.real[r], now);
      }
      break;
    case WakeKind::kEnter:
      enter(now, index);
      break;
    case WakeKind::kUsable:
      usable(now, index);
      break;
    case WakeKind::kInside:
      pass_inside(now, end_of_cookie(cookie));
      break;
  }
}

void ReferenceRanks::may_enter(uint32_t, uint32_t rank, Time at) {
  host_->wake_at(at, *this, cookie(WakeKind::kEnter, job_.real_index[rank]));
}

void ReferenceRanks::begin(size_t operation) {
  DEBUG_ASSERT_INVARIANT(operation == begun_ && flight(operation).ranks_left == 0);
  flight(operation).ranks_left = own_.end - own_.first;
  const std::vector<RankPart>& parts = parts_.find(job_.operations[operation])->second;
  for (uint32_t r = own_.first; r < own_.end; ++r) {
    program_.begin(static_cast<uint32_t>(operation), r, parts[r - own_.first]);
  }
  ++begun_;
}

void ReferenceRanks::enter(Time now, uint32_t real) {
  const size_t operation = operation_[real];
  if (operation >= first_ + CollectiveJob::kInFlight) {
    entry_[real] = now;
    return;
  }
  if (operation == begun_) begin(operation);
  CollectiveResult& result = progress_.results[operation];
  result.entry = std::min(result.entry, now);
  result.end = std::max(result.end, now);
  if (job_.exact) fill_contribution(operation);
  program_.enter(static_cast<uint32_t>(operation), real, now);
  send_filled(now);
}

/// The rank's own values, before anything is reduced into them; what is to come is nothing yet.
void ReferenceRanks::fill_contribution(size_t operation) {
  const Pattern own(memory_.input_seed, ring_.real);
  const size_t count = job_.operations[operation]->bytes / sizeof(float);
  DEBUG_ASSERT_INVARIANT(count <= memory_.data.size());
  const ExactRing::Range range = ring_.contribution(ring_.real, count);
  if (range.count < count) std::ranges::fill(memory_.data.first(count), 0.0F);
  for (size_t i = 0; i < range.count; ++i) memory_.data[range.first + i] = own.at(i);
}

void ReferenceRanks::on_filled(const RankEnd& sender, uint64_t k, Time) {
  const RankSchedule& s = schedule(sender.operation, sender.rank);
  if (!s.connections()[sender.connection].network) return;
  const uint32_t link = link_of(sender);
  DEBUG_ASSERT_INVARIANT(link < links_.size() && job_.links[link].real_sends);
  if (job_.exact) fill_slot(link, s.message(sender.connection, k));
  ++links_[link].due;
  if (!links_[link].leaves) leaving_.push_back(link);
  links_[link].leaves = true;
}

void ReferenceRanks::on_grantable(const RankEnd& receiver, uint64_t, Time now) {
  const uint32_t link = link_of(receiver);
  DEBUG_ASSERT_INVARIANT(link < links_.size() && !job_.links[link].real_sends);
  const Connection& c =
      schedule(receiver.operation, receiver.rank).connections()[receiver.connection];
  links_[link].receiver.grant(now, *host_, c.capacity);
}

void ReferenceRanks::on_passing(const RankEnd& end, Time at) {
  host_->wake_at(at, *this, inside_cookie(end));
}

void ReferenceRanks::pass_inside(Time now, const RankEnd& end) {
  if (end.operation < first_) return;  // a buffer is free that nobody needs any more
  program_.passed(end, now);
  send_filled(now);
}

/// Messages leave when nothing more can be done at the moment: credits go before them, as those of
/// emulated ranks do.
void ReferenceRanks::send_filled(Time now) {
  for (const uint32_t link : leaving_) {
    links_[link].leaves = false;
    send_ready(now, link);
  }
  leaving_.clear();
}

/// Messages leave from slots of their own, as from NCCL's buffers: the next operation may begin
/// while they are on their way.
void ReferenceRanks::fill_slot(uint32_t link, const Message& message) {
  std::memcpy(memory_.sent[link] + slot_offset(link, links_[link].due),
              reinterpret_cast<const uint8_t*>(memory_.data.data()) + message.offset, message.data);
}

void ReferenceRanks::send_ready(Time now, uint32_t link) {
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

void ReferenceRanks::End::on_received(Time now, Qp& qp, const Received& message) {
  if (all_.job_.links[link_].real_sends) return all_.send_ready(now, link_);
  all_.links_[link_].receiver.received(qp, message,
                                       [&](uint32_t bytes) { all_.on_data(now, link_, bytes); });
}

void ReferenceRanks::on_data(Time now, uint32_t link, uint32_t bytes) {
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

void ReferenceRanks::usable(Time now, uint32_t link) {
  Link& l = links_[link];
  CollectivePlace place;
  l.using_.at(job_, link, place);
  l.using_.step();
  if (job_.exact) take_in(link, place);
  ++l.used;
  program_.arrived(end_of(place.operation, link), now);
  send_filled(now);
}

/// Reduces a message into the buffer, or copies it there if it holds a final result.
void ReferenceRanks::take_in(uint32_t link, const CollectivePlace& place) {
  const Message message = job_.message(place.operation, link, place.message);
  const Link& l = links_[link];
  const uint8_t* data =
      memory_.received[link] + uint64_t{l.receiver.slot(l.used)} * job_.links[link].slot_bytes;
  const Connection& c = job_.connection(place.operation, link);
  if (!ring_.adds(ring_.hops(job_.links[link].far, c, place.message))) {
    std::memcpy(reinterpret_cast<uint8_t*>(memory_.data.data()) + message.offset, data,
                message.data);
    return;
  }
  float* own = memory_.data.data() + message.offset / sizeof(float);
  for (size_t i = 0; i < message.data / sizeof(float); ++i) {
    float v;
    std::memcpy(&v, data + i * sizeof v, sizeof v);
    own[i] = v + own[i];
  }
}

void ReferenceRanks::End::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    all_.progress_.failed = true;
  } else if (all_.job_.links[link_].real_sends) {
    all_.links_[link_].sender.acknowledged(
        qp, id, [&](uint64_t message) { all_.on_acknowledged(now, link_, place_of_id(message)); });
  }
}

void ReferenceRanks::on_acknowledged(Time now, uint32_t link, const CollectivePlace& place) {
  if (place.operation < first_) return;  // all ranks have done with it
  program_.acknowledged(end_of(place.operation, link), now);
  send_filled(now);
}

void ReferenceRanks::on_done(uint32_t operation, uint32_t real, Time now) {
  CollectiveResult& result = progress_.results[operation];
  result.end = std::max(result.end, now);
  if (job_.exact) result.wrong_elements = wrong_elements(operation);
  DEBUG_ASSERT_INVARIANT(flight(operation).ranks_left > 0 && operation_[real] == operation);
  --flight(operation).ranks_left;
  ++operation_[real];
  state_.workload->done(state_.group, operation, job_.real[real], now);
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

uint64_t ReferenceRanks::wrong_elements(size_t operation) const {
  const std::span<const float> data =
      memory_.data.first(job_.operations[operation]->bytes / sizeof(float));
  const uint64_t part = data.size() / ring_.ranks;
  uint64_t wrong = 0;
  switch (job_.collective) {
    case Collective::kAllGather:
      for (uint32_t rank = 0; rank < ring_.ranks; ++rank) {
        wrong += ExactRing::wrong_copies(rank, data.subspan(rank * part, part), seeds_[rank]);
      }
      return wrong;
    case Collective::kReduceScatter:  // the part ends where its last contribution comes from
      return ring_.wrong_sums(ring_.next(ring_.real), ring_.real * part,
                              data.subspan(ring_.real * part, part), seeds_);
    case Collective::kBroadcast:
      return ExactRing::wrong_copies(ring_.root, data, seeds_[ring_.root]);
    case Collective::kReduce:
      if (ring_.real != ring_.root) return 0;
      return ring_.wrong_sums(ring_.next(ring_.root), 0, data, seeds_);
    default:
      return wrong_chunks(operation);
  }
}

/// Of an all-reduce. Chunk k of a loop is first sent by rank k + 1 and grows by one contribution a
/// hop (docs/nccl 3.10): what this rank sends in its first n steps are all chunks.
uint64_t ReferenceRanks::wrong_chunks(size_t operation) const {
  const RankSchedule& s = schedule(operation, own_.first);
  uint64_t wrong = 0;
  for (uint32_t c = 0; c < s.connections().size(); ++c) {
    const Connection& connection = s.connections()[c];
    if (connection.direction != Direction::kSend) continue;
    for (uint64_t k = 0; k < connection.messages; ++k) {
      const uint32_t hops = ring_.hops(ring_.real, connection, k);
      if (hops >= ring_.ranks) continue;
      const Message message = s.message(c, k);
      const uint64_t first = message.offset / sizeof(float);
      wrong += ring_.wrong_sums((ring_.real + ring_.ranks - hops) % ring_.ranks, first,
                                memory_.data.subspan(first, message.data / sizeof(float)), seeds_);
    }
  }
  return wrong;
}

}  // namespace understudy
