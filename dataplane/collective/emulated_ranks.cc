#include "dataplane/collective/emulated_ranks.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

/// Messages of a connection that the plan may set free at once: a window, as a rule.
constexpr size_t kReserved = 8;

}  // namespace

EmulatedRanks::EmulatedRanks(const CollectiveJob& job, CollectiveState& state,
                             CollectiveProgress& progress,
                             const std::vector<const uint8_t*>& received)
    : job_(job),
      state_(state),
      progress_(progress),
      connections_(job, progress, *this),
      links_(job.links.size()),
      inner_(job.inner.size()),
      links_of_(job.ranks()),
      ranks_(job.ranks()) {
  ASSERT_INVARIANT(received.size() == links_.size());
  ASSERT_INVARIANT(!job.scheduled || state.workload != nullptr);
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (job.exact) contents_.emplace_back(*this, l);
    links_[l].memory = received[l];
    if (job.links[l].among_real()) continue;
    if (job.links[l].real_sends) {
      links_of_[job.links[l].far].push_back(l);
    }
  }
  if (job.exact) {
    values_ = std::make_unique<ExactValues>(job, std::vector<uint64_t>(job.ranks(), job.seed));
  }
  if (!job.scheduled) entries_.emplace(job);
  leaving_.reserve((job.links.size() + job.inner.size()) * kReserved);
  if (state.carrier != nullptr) state.carrier->listen(*this);
  const size_t most = std::min(job.operations.size(), job.in_flight);
  for (size_t i = 0; i < most; ++i) {
    flights_.emplace_back(job);
    if (job.exact) flights_.back().base.resize(links_.size());
  }
}

void EmulatedRanks::on_wake(Time now, uint64_t cookie) {
  if (connections_.wake(now, *host_, cookie)) return;
  const auto link = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 32)) {
    case WakeKind::kStart:
      start(now);
      break;
    case WakeKind::kData:
      ++links_[link].due;
      send_due(now, link);
      break;
    case WakeKind::kInnerData:
      post_inner(now, link);
      break;
    case WakeKind::kInnerCredit:
      state_.carrier->grant(link, now);
      break;
    case WakeKind::kInnerReaches:
      state_.carrier->reach(link, now);
      break;
    case WakeKind::kLook:
      look();
      break;
    case WakeKind::kForget:
      if (state_.carrier != nullptr) state_.carrier->forget(now);
      break;
    case WakeKind::kEnter: {
      const size_t operation = ranks_[link].operation;
      cause_ = WaitCause::kEntry;
      try_enter(now, link);
      settle(now, operation, Duration());
      break;
    }
  }
}

void EmulatedRanks::start(Time now) {
  for (Rank& rank : ranks_) rank.free = now;
  if (entries_) entries_->start(now);
  if (job_.scheduled) tell_begin(now);
  while (begun_ < flights_.size()) begin(now);
  settle(now, 0, Duration());
}

void EmulatedRanks::tell_begin(Time now) {
  for (uint32_t r = 0; r < ranks_.size() && !job_.operations.empty(); ++r) {
    if (job_.is_real(r)) continue;
    telling_ = r;
    state_.workload->listen(state_.group, r, *this);
    state_.workload->begin(state_.group, r, now);
  }
  telling_ = kNobody;
}

void EmulatedRanks::tell_done(uint32_t rank, size_t operation) {
  telling_ = rank;
  state_.workload->done(state_.group, static_cast<uint32_t>(operation), rank, ranks_[rank].free);
  telling_ = kNobody;
}

/// Who has just told the workload of the rank goes on with it.
void EmulatedRanks::may_enter(uint32_t operation, uint32_t rank, Time at) {
  DEBUG_ASSERT_INVARIANT(ranks_[rank].operation == operation && !ranks_[rank].inside);
  ranks_[rank].entry = at;
  if (rank == telling_) return;
  host_->wake_at(at, *this, cookie(WakeKind::kEnter, rank));
}

/// Ranks may enter one operation more.
void EmulatedRanks::begin(Time now) {
  DEBUG_ASSERT_INVARIANT(begun_ < first_ + job_.in_flight);
  const size_t operation = begun_++;
  const CollectiveShape& shape = *job_.operations[operation];
  Flight& f = flight(operation);
  f.lateness.begin(shape);
  f.entered = true;
  f.to_acknowledge = f.acknowledged = 0;
  f.heard = Duration();
  f.shown = {};
  if (job_.exact) {
    job_.count_before(operation, flight(operation == 0 ? 0 : operation - 1).base,
                      flight(operation).base);
  }
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (shape.uses[l].messages == 0) continue;
    if (job_.links[l].real_sends || job_.links[l].among_real()) continue;
    f.to_acknowledge += shape.uses[l].messages;
    if (is_shown(operation)) f.entered = false;  // its first credit will tell
  }
  plan(operation).begin();
  cause_ = WaitCause::kEntry;
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!job_.is_real(r) && ranks_[r].operation == operation) try_enter(now, r);
  }
}

void EmulatedRanks::try_enter(Time now, uint32_t rank) {
  Rank& r = ranks_[rank];
  if (r.inside || r.operation >= job_.operations.size()) return;
  if (r.operation >= begun_) {
    ++progress_.held_back;
    return;
  }
  if (is_ahead(rank, r.operation)) credit_ahead(now, rank);
  const Flight& f = flight(r.operation);
  if (!f.entered || (job_.scheduled && r.entry.is_never())) return;
  const Time entry = job_.scheduled
                         ? std::exchange(r.entry, Time::never())
                         : entries_->enter(rank, job_.step(rank, r.operation), r.free, f.shown);
  r.inside = true;
  r.credited = false;
  CollectiveResult& result = progress_.results[r.operation];
  result.entry = std::min(result.entry, entry);
  result.end = std::max(result.end, entry);
  plan(r.operation).enter(rank, entry);
}

/// A real rank's first credit says when ranks enter.
bool EmulatedRanks::is_shown(size_t operation) const {
  return !job_.scheduled && (!job_.by_program || operation == 0);
}

/// Credits of a rank that is later than the real ones leave when it enters.
bool EmulatedRanks::is_ahead(uint32_t rank, size_t operation) const {
  return is_shown(operation) &&
         job_.step(rank, operation).own() <= job_.step(job_.real.front(), operation).own();
}

/// The first credits leave as soon as the buffers are free, so that the way that the real ranks'
/// entry takes to be known is not added to what the model charges for it.
void EmulatedRanks::credit_ahead(Time now, uint32_t rank) {
  Rank& r = ranks_[rank];
  if (r.credited) return;
  r.credited = true;
  const Time at = std::max(now, r.free);
  for (const uint32_t l : links_of_[rank]) {
    const uint64_t messages = job_.messages(r.operation, l);
    if (messages == 0) continue;
    const uint64_t first = std::min<uint64_t>(job_.connection(r.operation, l).window, messages);
    for (uint64_t k = 0; k < first; ++k) host_->wake_at(at, *this, connections_.grants(l));
  }
  const CollectiveShape& shape = *job_.operations[r.operation];
  if (shape.inner.empty()) return;
  const std::vector<Connection>& all = shape.ranks[rank]->connections();
  for (uint32_t c = 0; c < all.size(); ++c) {
    const uint32_t inner = shape.inner[rank][c];
    if (inner == CollectiveShape::kUnused || all[c].direction != Direction::kReceive) continue;
    const uint64_t first = std::min<uint64_t>(all[c].window, all[c].messages);
    for (uint64_t k = 0; k < first; ++k) {
      host_->wake_at(at, *this, cookie(WakeKind::kInnerCredit, inner));
    }
  }
}

/// The NIC of a link's real rank has messages of operations before this one that have not come.
bool EmulatedRanks::is_sending(uint32_t link, size_t operation) {
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const CollectiveConnection& beside = job_.links[l];
    if (!beside.real_sends || beside.among_real() || !beside.shares_nic(job_.links[link])) continue;
    CollectivePlace place;
    if (links_[l].receiving.at(job_, l, place) && place.operation < operation) return true;
  }
  return false;
}

/// The real rank at the other end of a link sent us its first credit or message of an operation
/// when it entered.
void EmulatedRanks::real_entered(Time now, uint32_t link, size_t operation) {
  if (operation >= begun_) return;
  if (progress_.entered.load(std::memory_order_relaxed) <= operation) {
    progress_.entered.store(static_cast<uint32_t>(operation + 1), std::memory_order_relaxed);
  }
  Flight& f = flight(operation);
  if (f.entered) return;
  f.entered = true;
  const CollectiveShape* former = operation == 0 ? nullptr : job_.operations[operation - 1];
  f.shown =
      entries_->shown(link, now - job_.links[link].latency, former, is_sending(link, operation));
  entries_->compare(f.shown, job_.step(f.shown.real, operation));
  cause_ = WaitCause::kEntry;
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!job_.is_real(r) && ranks_[r].operation == operation) try_enter(now, r);
  }
  settle(now, operation, Duration());
}

/// Takes what the plans have to say after an input to the one of `operation`; what it sets free
/// carries `carried`.
void EmulatedRanks::settle(Time now, size_t operation, Duration carried) {
  for (size_t o = operation; o < begun_ && pump(now, o, carried); ++o) carried = Duration();
  finish(now);
}

/// False if no rank has gone on to the next operation. Of what leaves at one moment credits go
/// first: NICs have them in the work request, data they fetch.
bool EmulatedRanks::pump(Time now, size_t operation, Duration carried) {
  const CollectiveShape& shape = *job_.operations[operation];
  PlanOutput out;
  while (plan(operation).next(out)) {
    const bool data = out.kind == PlanOutput::Kind::kData;
    const Time at = std::max(now, out.time);
    const bool ahead = !data && is_ahead(out.rank, operation);
    if (!shape.inner.empty()) {
      const uint32_t inner = shape.inner[out.rank][out.connection];
      if (inner != CollectiveShape::kUnused) {
        const Connection& c = shape.ranks[out.rank]->connections()[out.connection];
        if (ahead && out.message < c.window) continue;  // it has left
        if (data) {
          leaving_.push_back({at, cookie(WakeKind::kInnerData, inner)});
        } else {
          host_->wake_at(at, *this, cookie(WakeKind::kInnerCredit, inner));
        }
        continue;
      }
    }
    const uint32_t link = shape.links[out.rank].at(out.connection);
    DEBUG_ASSERT_INVARIANT(link < links_.size() && job_.links[link].real_sends != data);
    if (ahead && out.message < job_.connection(operation, link).window) continue;
    if (!data) {
      host_->wake_at(at, *this, connections_.grants(link));
      continue;
    }
    flight(operation).lateness.add(link, out.message, carried);
    if (MessageMoments* m = moments(link, links_[link].planned++)) {
      m->due = at;
      m->cause = cause_;
    }
    leaving_.push_back({at, cookie(WakeKind::kData, link)});
  }
  for (const Leaving& data : leaving_) host_->wake_at(data.at, *this, data.cookie);
  leaving_.clear();
  bool gone_on = false;
  uint32_t rank;
  while (plan(operation).next_done(rank)) {
    Rank& r = ranks_[rank];
    DEBUG_ASSERT_INVARIANT(r.inside && r.operation == operation);
    r.free = plan(operation).completion(rank);
    ++r.operation;
    r.inside = false;
    if (job_.scheduled) tell_done(rank, operation);
    if (r.operation >= job_.operations.size()) continue;
    gone_on = true;
    cause_ = WaitCause::kEntry;
    try_enter(now, rank);
  }
  return gone_on;
}

void EmulatedRanks::finish(Time now) {
  while (first_ < begun_) {
    const Flight& f = flight(first_);
    if (!plan(first_).finished() || f.acknowledged < f.to_acknowledge) break;
    ++first_;
    progress_.finished.store(static_cast<uint32_t>(first_), std::memory_order_release);
    if (first_ == job_.operations.size() && state_.carrier != nullptr) state_.carrier->close();
    if (begun_ == job_.operations.size()) continue;
    begin(now);
    for (size_t o = begun_ - 1; o < begun_ && pump(now, o, Duration()); ++o) {
    }
  }
}

void EmulatedRanks::send_due(Time now, uint32_t link) {
  Link& l = links_[link];
  NcclSender& sender = connections_.sender(link);
  CollectivePlace place;
  while (connections_.joined(link) && l.sent < l.due && l.sending.at(job_, link, place)) {
    if (!connections_.has_credit(link, l.sent)) return;
    uint32_t size = job_.message(place.operation, link, place.message).wire;
    // The real rank carries out another operation than the job lists: less than is due lets it go
    // on.
    const uint64_t capacity = sender.capacity(l.sent);
    const bool short_of = capacity < size;
    if (short_of) size = static_cast<uint32_t>(capacity);
    PayloadRef payload;
    if (job_.exact) {
      payload.source = &contents_[link];
      payload.cookie = message_id(place);
    }
    if (!sender.send(now, *host_, l.sent, size, payload, message_id(place))) return;
    if (short_of) ++progress_.violations;
    if (entries_) entries_->sent(link);
    progress_.results[place.operation].bytes_sent += size;
    if (MessageMoments* m = moments(link, l.sent)) m->posted = now;
    ++l.sent;
    l.sending.step();
  }
}

void EmulatedRanks::post_inner(Time now, uint32_t inner) {
  CollectivePlace place;
  if (!inner_[inner].posting.at_inner(job_, inner, place)) return;
  inner_[inner].posting.step();
  const CollectiveShape& shape = *job_.operations[place.operation];
  const RankSchedule& sender = *shape.ranks[job_.inner[inner].from];
  state_.carrier->post(inner, sender.message(shape.inner_uses[inner].from, place.message).wire,
                       now);
}

void EmulatedRanks::inner_received(uint32_t inner, Time now) {
  CollectivePlace place;
  if (!inner_[inner].receiving.at_inner(job_, inner, place)) return;
  inner_[inner].receiving.step();
  cause_ = WaitCause::kData;
  plan(place.operation)
      .on_real_data(job_.inner[inner].to, job_.operations[place.operation]->inner_uses[inner].to,
                    place.message, now);
  settle(now, place.operation, flight(place.operation).heard);
}

void EmulatedRanks::inner_reaches(uint32_t flow, Time at) {
  host_->wake_at(at, *this, cookie(WakeKind::kInnerReaches, flow));
}

void EmulatedRanks::inner_acknowledged(uint32_t inner, Time now) {
  CollectivePlace place;
  if (!inner_[inner].acknowledging.at_inner(job_, inner, place)) return;
  inner_[inner].acknowledging.step();
  // The last ones of an operation that is over change nothing.
  if (place.operation < first_) return;
  cause_ = WaitCause::kAcknowledgement;
  plan(place.operation)
      .on_acknowledged(job_.inner[inner].from,
                       job_.operations[place.operation]->inner_uses[inner].from, place.message,
                       now);
  settle(now, place.operation, flight(place.operation).heard);
}

void EmulatedRanks::on_granted(Time now, uint32_t link, uint64_t k) {
  if (MessageMoments* m = moments(link, k)) m->granted = now;
}

void EmulatedRanks::on_credit(Time now, uint32_t link) {
  Link& l = links_[link];
  DEBUG_ASSERT_INVARIANT(connections_.joined(link) && !job_.links[link].real_sends);
  CollectivePlace place;
  // Credits of an operation come when those of the ones before are used up.
  if (l.sending.at(job_, link, place) && place.message == 0 &&
      connections_.has_credit(link, l.sent)) {
    real_entered(now, link, place.operation);
  }
  send_due(now, link);
  if (!l.sending.at(job_, link, place) && connections_.sender(link).has_credit(l.sent)) {
    progress_.goes_on.store(link + 1, std::memory_order_relaxed);
  }
}

void EmulatedRanks::note_odd(const CollectivePlace& place, uint32_t link, uint32_t bytes,
                             uint32_t expected) {
  if (progress_.has_odd.load(std::memory_order_relaxed)) return;
  progress_.odd = {static_cast<uint32_t>(place.operation), link, bytes, expected};
  progress_.has_odd.store(true, std::memory_order_release);
}

void EmulatedRanks::on_data(Time now, uint32_t link, uint32_t bytes) {
  Link& l = links_[link];
  CollectivePlace place;
  if (!l.receiving.at(job_, link, place) || place.operation >= begun_ ||
      l.received == connections_.receiver(link).granted()) {
    ++progress_.violations;
    return;
  }
  // The real rank's first data may overtake its first credit, which goes another way.
  if (place.message == 0) real_entered(now, link, place.operation);
  if (entries_) entries_->received(link, now);
  if (MessageMoments* m = moments(link, l.received)) m->received = now;
  ++l.received;
  l.receiving.step();
  CollectiveResult& result = progress_.results[place.operation];
  if (const uint32_t due = job_.message(place.operation, link, place.message).wire; bytes != due) {
    ++result.size_mismatches;
    note_odd(place, link, bytes, due);
  }
  result.bytes_received += bytes;
  result.end = std::max(result.end, now);
  Flight& f = flight(place.operation);
  const Duration late = f.lateness.of_real(link, place.message) + host_->arrival_uncertainty();
  f.heard = std::max(f.heard, late);
  cause_ = WaitCause::kData;
  if (!plan(place.operation)
           .on_real_data(job_.links[link].far, plan_connection(place.operation, link),
                         place.message, now)) {
    ++progress_.violations;
  }
  settle(now, place.operation, late);
}

void EmulatedRanks::on_acknowledged(Time now, uint32_t link, uint64_t id) {
  const CollectivePlace place = place_of_id(id);
  DEBUG_ASSERT_INVARIANT(place.operation < begun_);
  Flight& f = flight(place.operation);
  if (entries_) entries_->acknowledged(link, now);
  ++f.acknowledged;
  uint64_t& acknowledged = links_[link].acknowledged;
  if (MessageMoments* m = moments(link, acknowledged++)) m->acknowledged = now;
  cause_ = WaitCause::kAcknowledgement;
  CollectiveResult& result = progress_.results[place.operation];
  result.end = std::max(result.end, now);
  plan(place.operation)
      .on_acknowledged(job_.links[link].far, plan_connection(place.operation, link), place.message,
                       now);
  settle(now, place.operation, f.heard);
}

void EmulatedRanks::on_left(Time scheduled, Time actual, uint32_t link, uint64_t id) {
  const CollectivePlace place = place_of_id(id);
  if (place.operation < first_) return;  // sent again
  if (entries_) entries_->left(link, actual);
  const Duration late =
      flight(place.operation).lateness.add(link, place.message, actual - scheduled);
  CollectiveResult& result = progress_.results[place.operation];
  result.lateness = std::max(result.lateness, late);
}

}  // namespace understudy
