#include "dataplane/node/collective_environment.h"

#include <algorithm>

namespace understudy {
namespace {

/// Messages of a connection that the plan may tell at once: a window, as a rule.
constexpr size_t kReserved = 8;

}  // namespace

CollectiveEnvironment::CollectiveEnvironment(const CollectiveJob& job, CollectiveProgress& progress,
                                             const std::vector<const uint8_t*>& received)
    : job_(job),
      progress_(progress),
      links_(job.links.size()),
      inner_(job.inner.size()),
      links_of_(job.ranks()),
      ranks_(job.ranks()) {
  for (uint32_t l = 0; l < links_.size(); ++l) {
    ends_.emplace_back(*this, l);
    links_[l].memory = received[l];
    if (job.links[l].among_real()) continue;
    if (job.links[l].real_sends) {
      links_of_[job.links[l].far].push_back(l);
    } else if (job.exact) {
      chain(l);
    }
  }
  leaving_.reserve((job.links.size() + job.inner.size()) * kReserved);
  if (job.carrier != nullptr) job.carrier->listen(*this);
  const size_t most = std::min(job.operations.size(), CollectiveJob::kInFlight);
  for (size_t i = 0; i < most; ++i) flights_.emplace_back(job);
}

void CollectiveEnvironment::on_wake(Time now, uint64_t cookie) {
  const auto link = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 32)) {
    case WakeKind::kStart:
      start(now);
      break;
    case WakeKind::kData:
      ++links_[link].due;
      send_due(now, link);
      break;
    case WakeKind::kCredit:
      grant(now, link);
      break;
    case WakeKind::kInnerData:
      post_inner(now, link);
      break;
    case WakeKind::kInnerCredit:
      job_.carrier->grant(link, now);
      break;
    case WakeKind::kJoin:
      join(now, link);
      break;
    case WakeKind::kLeave:
      links_[link].joined = false;
      break;
  }
}

void CollectiveEnvironment::join(Time now, uint32_t link) {
  Link& l = links_[link];
  l.joined = true;
  for (; l.owed > 0; --l.owed) grant(now, link);
  on_credit(now, link);
}

void CollectiveEnvironment::start(Time now) {
  for (Rank& rank : ranks_) rank.free = job_.scheduled ? std::max(now, job_.start) : now;
  while (begun_ < flights_.size()) begin(now);
  settle(now, 0, Duration());
}

/// Ranks may enter one operation more.
void CollectiveEnvironment::begin(Time now) {
  const size_t operation = begun_++;
  const CollectiveShape& shape = *job_.operations[operation];
  Flight& f = flight(operation);
  f.lateness.begin(shape);
  f.entered = true;
  f.to_acknowledge = f.acknowledged = 0;
  f.heard = Duration();
  f.entry = now;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (shape.uses[l].messages == 0) continue;
    if (job_.links[l].real_sends || job_.links[l].among_real()) continue;
    f.to_acknowledge += shape.uses[l].messages;
    if (!job_.scheduled) f.entered = false;  // its first credit will tell
  }
  plan(operation).begin();
  cause_ = WaitCause::kEntry;
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!job_.is_real(r) && ranks_[r].operation == operation) try_enter(now, r);
  }
}

void CollectiveEnvironment::try_enter(Time now, uint32_t rank) {
  Rank& r = ranks_[rank];
  if (r.operation >= begun_ || r.inside) return;
  const EntryStep& step = job_.step(rank, r.operation);
  if (is_ahead(rank, r.operation)) credit_ahead(now, rank);
  const Flight& f = flight(r.operation);
  if (!f.entered) return;
  const Time entry =
      job_.scheduled ? r.clock.enter(step, r.free) : std::max(r.free, f.entry + step.delay);
  r.inside = true;
  r.credited = false;
  CollectiveResult& result = progress_.results[r.operation];
  result.entry = std::min(result.entry, entry);
  result.end = std::max(result.end, entry);
  plan(r.operation).enter(rank, entry);
}

/// A late rank's credits leave when it enters.
bool CollectiveEnvironment::is_ahead(uint32_t rank, size_t operation) const {
  return !job_.scheduled && job_.step(rank, operation).delay == Duration();
}

/// The first credits leave as soon as the buffers are free, so that the way that the real ranks'
/// entry takes to be known is not added to what the model charges for it.
void CollectiveEnvironment::credit_ahead(Time now, uint32_t rank) {
  Rank& r = ranks_[rank];
  if (r.credited) return;
  r.credited = true;
  const Time at = std::max(now, r.free);
  for (const uint32_t l : links_of_[rank]) {
    const uint64_t messages = job_.messages(r.operation, l);
    if (messages == 0) continue;
    const uint64_t first = std::min<uint64_t>(job_.connection(r.operation, l).window, messages);
    for (uint64_t k = 0; k < first; ++k) host_->wake_at(at, *this, cookie(WakeKind::kCredit, l));
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

/// The real rank at the other end of a link sent us its first credit or message of an operation
/// when it entered, and all ranks entered with it.
void CollectiveEnvironment::real_entered(Time now, uint32_t link, size_t operation) {
  if (operation >= begun_) return;
  Flight& f = flight(operation);
  if (f.entered) return;
  f.entered = true;
  f.entry = now - job_.links[link].latency;
  cause_ = WaitCause::kEntry;
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!job_.is_real(r) && ranks_[r].operation == operation) try_enter(now, r);
  }
  settle(now, operation, Duration());
}

/// Takes what the plans have to say after an input to the one of `operation`; what it sets free
/// carries `carried`.
void CollectiveEnvironment::settle(Time now, size_t operation, Duration carried) {
  for (size_t o = operation; o < begun_ && pump(now, o, carried); ++o) carried = Duration();
  finish(now);
}

/// False if no rank has gone on to the next operation. Of what leaves at one moment credits go
/// first: NICs have them in the work request, data they fetch.
bool CollectiveEnvironment::pump(Time now, size_t operation, Duration carried) {
  const CollectiveShape& shape = *job_.operations[operation];
  EnvironmentOutput out;
  while (plan(operation).next(out)) {
    const bool data = out.kind == EnvironmentOutput::Kind::kData;
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
    if (ahead && out.message < job_.connection(operation, link).window) continue;
    if (!data) {
      host_->wake_at(at, *this, cookie(WakeKind::kCredit, link));
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
    r.free = plan(operation).completion(rank);
    ++r.operation;
    r.inside = false;
    if (r.operation >= job_.operations.size()) continue;
    gone_on = true;
    cause_ = WaitCause::kEntry;
    try_enter(now, rank);
  }
  return gone_on;
}

void CollectiveEnvironment::finish(Time now) {
  while (first_ < begun_) {
    const Flight& f = flight(first_);
    if (!plan(first_).finished() || f.acknowledged < f.to_acknowledge) break;
    ++first_;
    progress_.finished.store(static_cast<uint32_t>(first_), std::memory_order_release);
    if (first_ == job_.operations.size() && job_.carrier != nullptr) job_.carrier->close();
    if (begun_ == job_.operations.size()) continue;
    begin(now);
    for (size_t o = begun_ - 1; o < begun_ && pump(now, o, Duration()); ++o) {
    }
  }
}

void CollectiveEnvironment::send_due(Time now, uint32_t link) {
  Link& l = links_[link];
  CollectivePlace place;
  while (l.joined && l.sent < l.due && l.sending.at(job_, link, place)) {
    if (!l.sender.has_credit(l.sent)) return;
    uint32_t size = job_.message(place.operation, link, place.message).wire;
    // Another operation than we were told: less than is due lets the real rank go on.
    const uint64_t capacity = l.sender.capacity(l.sent);
    const bool short_of = capacity < size;
    if (short_of) size = static_cast<uint32_t>(capacity);
    PayloadRef payload;
    if (job_.exact) {
      payload.source = &ends_[link];
      payload.cookie = message_id(place);
      if (place.message == 0) {  // its credit says that all of the operation before have come
        l.base = l.sent;
        l.base_operation = place.operation;
      }
    }
    if (!l.sender.send(now, *host_, l.sent, size, payload, message_id(place))) return;
    if (short_of) ++progress_.violations;
    progress_.results[place.operation].bytes_sent += size;
    if (MessageMoments* m = moments(link, l.sent)) m->posted = now;
    ++l.sent;
    l.sending.step();
  }
}

void CollectiveEnvironment::post_inner(Time now, uint32_t inner) {
  CollectivePlace place;
  if (!inner_[inner].posting.at_inner(job_, inner, place)) return;
  inner_[inner].posting.step();
  const CollectiveShape& shape = *job_.operations[place.operation];
  const RankSchedule& sender = *shape.ranks[job_.inner[inner].from];
  job_.carrier->post(inner, sender.message(shape.inner_uses[inner].from, place.message).wire, now);
}

void CollectiveEnvironment::inner_received(uint32_t inner, Time now) {
  CollectivePlace place;
  if (!inner_[inner].receiving.at_inner(job_, inner, place)) return;
  inner_[inner].receiving.step();
  cause_ = WaitCause::kData;
  plan(place.operation)
      .on_real_data(job_.inner[inner].to, job_.operations[place.operation]->inner_uses[inner].to,
                    place.message, now);
  settle(now, place.operation, flight(place.operation).heard);
}

void CollectiveEnvironment::inner_acknowledged(uint32_t inner, Time now) {
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

void CollectiveEnvironment::grant(Time now, uint32_t link) {
  Link& l = links_[link];
  if (!l.joined) {
    ++l.owed;
    return;
  }
  const uint64_t k = l.receiver.granted();
  if (!l.receiver.grant(now, *host_)) return;
  if (MessageMoments* m = moments(link, k)) m->granted = now;
}

void CollectiveEnvironment::End::on_received(Time now, Qp& qp, const Received& message) {
  if (!all_.job_.links[link_].real_sends) return all_.on_credit(now, link_);
  all_.links_[link_].receiver.received(qp, message,
                                       [&](uint32_t bytes) { all_.on_data(now, link_, bytes); });
}

void CollectiveEnvironment::on_credit(Time now, uint32_t link) {
  Link& l = links_[link];
  if (!l.joined || job_.links[link].real_sends) return;
  CollectivePlace place;
  // Credits of an operation come when those of the ones before are used up.
  if (!job_.scheduled && l.sending.at(job_, link, place) && place.message == 0 &&
      l.sender.has_credit(l.sent)) {
    real_entered(now, link, place.operation);
  }
  send_due(now, link);
}

void CollectiveEnvironment::on_data(Time now, uint32_t link, uint32_t bytes) {
  Link& l = links_[link];
  CollectivePlace place;
  if (!l.receiving.at(job_, link, place) || place.operation >= begun_ ||
      l.received == l.receiver.granted()) {
    ++progress_.violations;
    return;
  }
  // The real rank's first data may overtake its first credit, which goes another way.
  if (place.message == 0) real_entered(now, link, place.operation);
  if (MessageMoments* m = moments(link, l.received)) m->received = now;
  ++l.received;
  l.receiving.step();
  CollectiveResult& result = progress_.results[place.operation];
  if (bytes != job_.message(place.operation, link, place.message).wire) ++result.size_mismatches;
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

void CollectiveEnvironment::End::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    all_.progress_.failed = true;
    return;
  }
  if (all_.job_.links[link_].real_sends) return;  // a credit of ours
  all_.links_[link_].sender.acknowledged(
      qp, id, [&](uint64_t message) { all_.on_acknowledged(now, link_, place_of_id(message)); });
}

void CollectiveEnvironment::on_acknowledged(Time now, uint32_t link, const CollectivePlace& place) {
  Flight& f = flight(place.operation);
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

void CollectiveEnvironment::End::on_transmitted(Time scheduled, Time actual, Qp&, uint64_t id) {
  if (all_.job_.links[link_].real_sends || !NcclSender::is_message(id)) return;
  const CollectivePlace place = place_of_id(id);
  if (place.operation < all_.first_) return;  // sent again
  const Duration late =
      all_.flight(place.operation).lateness.add(link_, place.message, actual - scheduled);
  CollectiveResult& result = all_.progress_.results[place.operation];
  result.lateness = std::max(result.lateness, late);
}

}  // namespace understudy
