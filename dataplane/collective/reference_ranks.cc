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
      links_(job.links.size()),
      program_(*this, static_cast<uint32_t>(job.real.size()), static_cast<uint32_t>(job.in_flight),
               job.inside),
      flights_(std::min(job.operations.size(), job.in_flight)),
      operation_(job.real.size()),
      entry_(job.real.size(), Time::never()) {
  ASSERT_INVARIANT(own.first < own.end && own.end <= job.real.size());
  ASSERT_INVARIANT(state.workload != nullptr);
  for (uint32_t l = 0; l < links_.size(); ++l) {
    ends_.emplace_back(*this, l);
    contents_.emplace_back(*this, l);
  }
  leaving_.reserve(job.links.size());
  prepare();
  if (job.exact) prepare_values();
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
    case WakeKind::kJoin:
      join(now, index);
      break;
  }
}

/// What has waited for it leaves: credits of its first messages, or data.
void ReferenceRanks::join(Time now, uint32_t link) {
  Link& l = links_[link];
  if (!std::exchange(l.awaited, false)) return;
  CollectivePlace place;
  for (LinkCursor next; l.owed > 0 && next.at(job_, link, place); next.step(), --l.owed) {
    grant(now, link, end_of(place.operation, link));
  }
  if (job_.links[link].real_sends) send_ready(now, link);
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
  if (job_.exact) {
    job_.count_before(operation, flight(operation == 0 ? 0 : operation - 1).base,
                      flight(operation).base);
  }
  ++begun_;
}

void ReferenceRanks::enter(Time now, uint32_t real) {
  const size_t operation = operation_[real];
  if (operation >= first_ + job_.in_flight) {
    entry_[real] = now;
    return;
  }
  if (operation == begun_) begin(operation);
  CollectiveResult& result = progress_.results[operation];
  result.entry = std::min(result.entry, now);
  result.end = std::max(result.end, now);
  if (job_.exact) std::ranges::fill(own_values_[real - own_.first].result, uint8_t{0});
  program_.enter(static_cast<uint32_t>(operation), real, now);
  send_filled(now);
}

void ReferenceRanks::on_filled(const RankEnd& sender, uint64_t k, Time) {
  if (job_.exact) fill_message(sender, k);
  const RankSchedule& s = schedule(sender.operation, sender.rank);
  if (!s.connections()[sender.connection].network) return;
  const uint32_t link = link_of(sender);
  DEBUG_ASSERT_INVARIANT(link < links_.size() && job_.links[link].real_sends);
  ++links_[link].due;
  if (!links_[link].leaves) leaving_.push_back(link);
  links_[link].leaves = true;
}

void ReferenceRanks::on_grantable(const RankEnd& receiver, uint64_t, Time now) {
  const uint32_t link = link_of(receiver);
  DEBUG_ASSERT_INVARIANT(link < links_.size() && !job_.links[link].real_sends);
  if (links_[link].awaited) {
    ++links_[link].owed;
    return;
  }
  grant(now, link, receiver);
}

void ReferenceRanks::grant(Time now, uint32_t link, const RankEnd& receiver) {
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

void ReferenceRanks::send_ready(Time now, uint32_t link) {
  Link& l = links_[link];
  if (l.awaited) return;
  CollectivePlace place;
  while (l.sent < l.due && l.sending.at(job_, link, place)) {
    const Message message = job_.message(place.operation, link, place.message);
    PayloadRef payload;
    if (job_.exact && lines(place.operation, link).plain()) {
      payload.bytes = memory_.sent[link];
      payload.offset = slot_offset(link, l.sent);
    } else if (job_.exact) {
      payload.source = &contents_[link];
      payload.cookie = l.sent;
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

void ReferenceRanks::End::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  Link& l = all_.links_[link_];
  const bool sends = all_.job_.links[link_].real_sends;
  if (status != WorkStatus::kSuccess) {
    const bool goes_on = sends ? l.sender.fails_over(now, qp, id, status)
                               : l.receiver.fails_over(now, *host_, qp, id, status);
    if (!goes_on) all_.progress_.fail(now);
  } else if (sends) {
    l.sender.acknowledged(
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
  if (job_.exact) complete_all(operation, real);
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

}  // namespace understudy
