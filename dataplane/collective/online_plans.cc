// OnlineEmulatedRanks: the plans of its operations, what they are told and what they set free.
#include <algorithm>

#include "dataplane/base/assert.h"
#include "dataplane/collective/online_emulated_ranks.h"

namespace understudy {

/// What came is what the operation has there. A guess is not held to it.
bool OnlineEmulatedRanks::agrees(Time now, const OnlineOperation& op, const Input& input) {
  if (!op.sure || input.kind == Input::Kind::kAcknowledgement) return true;
  const uint32_t link = input.link;
  const bool credit = input.kind == Input::Kind::kCredit;
  const RankSchedule& real = *op.shape->real[job_.real_index[job_.links[link].real]];
  const uint32_t expected = credit ? real.connections()[op.shape->uses[link].real].capacity
                                   : wire(op, link, input.message - op.base[link]);
  if (input.bytes == expected) return true;
  notify(now, {.kind = OnlineNotice::Kind::kDisagrees,
               .link = link,
               .bytes = input.bytes,
               .credit = credit,
               .expected = expected,
               .number = op.number});
  give_up(now);
  return false;
}

/// Tells an operation's plan what has come of it, or puts that off. False if that is not the
/// operation.
bool OnlineEmulatedRanks::feed(Time now, OnlineOperation& op, uint64_t place) {
  Input& input = inputs_[place & (inputs_.size() - 1)];
  if (!agrees(now, op, input)) return false;
  // A link's inputs keep their order: an acknowledgement is of all messages before its own too.
  const bool behind = input.kind != Input::Kind::kCredit && op.put_off_of[input.link] > 0;
  if (behind || !tell(now, op, input, input.time)) {
    ++op.put_off_of[input.link];
    op.put_off.push_back(place);
  }
  return true;
}

/// The same with what the plan takes for the time of that. False if the plan is not ready for it:
/// what another guess had set free may come before the plan of this one has done so; and by credits
/// that were granted ahead a real rank sends to a rank that is still in the operation before.
bool OnlineEmulatedRanks::tell(Time now, OnlineOperation& op, Input& input, Time time) {
  const uint32_t link = input.link;
  const uint64_t k = input.message - op.base[link];
  const uint32_t rank = job_.links[link].far, connection = op.shape->uses[link].far;
  if (input.kind != Input::Kind::kAcknowledgement && !op.began) {
    op.began = true;
    op.entry = input.time - job_.links[link].latency;
    op.noticed = input.time;
    see_entry(op.number, link, op.entry);
    op.shown = shown_;
    op.shown.own = op.delay[shown_.real];
    op.shown.compare(shown_.end + op.shown.own);
    enter(op);
    take(now, op, Duration());
  }
  switch (input.kind) {
    case Input::Kind::kCredit:
      input.fed = true;
      return true;
    case Input::Kind::kAcknowledgement:
      if (!op.plan->on_acknowledged(rank, connection, k, time) && !op.sure) return false;
      input.fed = true;
      ++op.acknowledged;
      op.end = std::max(op.end, input.time);
      take(now, op, op.heard);
      return true;
    case Input::Kind::kData:
      break;
  }
  if (!op.plan->on_real_data(rank, connection, k, time)) return false;
  input.fed = true;
  op.end = std::max(op.end, input.time);
  op.bytes_received += input.bytes;
  const Duration late = op.lateness.of_real(link, k) + host_->arrival_uncertainty();
  op.heard = std::max(op.heard, late);
  take(now, op, late);
  return true;
}

/// Tells a plan what it was not ready for, as if it came now.
void OnlineEmulatedRanks::tell_put_off(Time now, OnlineOperation& op) {
  for (bool more = !op.put_off.empty() || !op.inner_put_off.empty(); more;) {
    more = false;
    for (size_t i = 0; i < op.inner_put_off.size();) {
      const auto [inner, k] = op.inner_put_off[i];
      if (!tell_inner(now, op, inner, k)) {
        ++i;
        continue;
      }
      op.inner_put_off.erase(op.inner_put_off.begin() + static_cast<ptrdiff_t>(i));
      more = true;
    }
    for (const uint64_t place : op.put_off) {
      op.put_off_of[inputs_[place & (inputs_.size() - 1)].link] = 0;
    }
    size_t kept = 0;
    for (const uint64_t place : op.put_off) {
      Input& input = inputs_[place & (inputs_.size() - 1)];
      uint32_t& before = op.put_off_of[input.link];
      if (before == 0 && tell(now, op, input, now)) {
        more = true;
        continue;
      }
      ++before;
      op.put_off[kept++] = place;
    }
    op.put_off.resize(kept);
  }
}

void OnlineEmulatedRanks::install(Time now, OnlineOperation& op) {
  OnlineOperation* before = op.number + 1 == known_ ? last() : nullptr;
  if (before != nullptr) {
    op.late = before->late;
    op.late_messages = before->late_messages;
    op.carried = before->carried;
  } else {
    DEBUG_ASSERT_INVARIANT(op.number == known_ && known_ - first_ < kMost);
    ++known_;
  }
  operations_[op.number % kMost] = &op;
  op.base = settled_;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (says(l)) op.to_acknowledge += op.shape->uses[l].messages;
  }
  DEBUG_ASSERT_INVARIANT(op.sure || inner_.empty());
  for (uint32_t i = 0; i < inner_.size(); ++i) {
    op.inner_base[i] = inner_[i].settled;
    inner_[i].settled += op.shape->inner_uses[i].messages;
  }
  if (op.sure) settle(now, op);
  replay(now, op);
  if (op.sure && !op.began && !crosses(op)) begin_unseen(now, op);
  if (before != nullptr) {
    notify(now, {.kind = OnlineNotice::Kind::kReleased, .operation = before});
  }
  finish(now);
  look_for_next(now, oldest_);
}

/// Something of the operation passes between real and emulated ranks.
bool OnlineEmulatedRanks::crosses(const OnlineOperation& op) const {
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (!job_.links[l].among_real() && op.shape->uses[l].messages > 0) return true;
  }
  return false;
}

/// Of an operation of which nothing will come: the emulated ranks enter when they are free.
void OnlineEmulatedRanks::begin_unseen(Time now, OnlineOperation& op) {
  op.began = true;
  op.entry = op.noticed = now;
  op.shown = {};
  enter(op);
  take(now, op, Duration());
}

/// Tells a new plan all that has come.
void OnlineEmulatedRanks::replay(Time now, OnlineOperation& op) {
  // What the plan before released and is not due yet is released anew.
  for (uint32_t l = 0; l < links_.size(); ++l) {
    Link& link = links_[l];
    if (!says(l) || link.released <= op.base[l]) continue;
    if (link.due < op.base[l]) continue;  // with the end of the operation before
    const uint64_t end = std::max(op.base[l] + op.shape->uses[l].messages, link.sent);
    link.due = std::min(link.due, end);
    link.released = std::max(link.due, op.base[l]);
    link.plans = static_cast<uint16_t>(link.plans + 1);
  }
  op.plan->begin();
  op.lateness.begin(*op.shape);
  for (uint64_t i = oldest_; i < newest_ && !given_up_; ++i) {
    const Input& in = inputs_[i & (inputs_.size() - 1)];
    if (in.message < op.base[in.link]) continue;
    if (in.message >= op.base[in.link] + op.shape->uses[in.link].messages) continue;
    if (!feed(now, op, i)) return;
  }
  tell_put_off(now, op);
  for (uint32_t l = 0; l < links_.size(); ++l) {
    lengthen(now, l, &op);
    send_due(now, l);
  }
}

/// Messages that left with the size of another guess get the lines that this operation has more
/// (without one: all that their credits take), where a kernel spins on them.
void OnlineEmulatedRanks::lengthen(Time now, uint32_t link, const OnlineOperation* op) {
  Link& l = links_[link];
  if (job_.links[link].real_sends || !connections_.joined(link)) return;
  const uint64_t first = op != nullptr ? op->base[link] : settled_[link];
  const uint64_t end =
      op != nullptr ? std::min(l.sent, first + op->shape->uses[link].messages) : l.sent;
  constexpr uint64_t kUnread = 8;  // most messages of LL or LL128 that are under way
  for (uint64_t k = std::max(first, l.sent - std::min(l.sent, kUnread)); k < end; ++k) {
    const uint32_t bytes = op != nullptr ? wire(*op, link, k - first) : kMaxMessageBytes;
    // A send queue is never full: it has room for twice the credits that there can be.
    (void)connections_.sender(link).lengthen(now, *host_, k, bytes);
  }
}

/// Nothing will replace the operation: its end is where the next one begins. Its ranks' first
/// credits of that leave when they are done.
void OnlineEmulatedRanks::settle(Time now, OnlineOperation& op) {
  op.over = true;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    settled_[l] = op.base[l] + op.shape->uses[l].messages;
    const uint32_t far = job_.links[l].far;
    if (hears(l) && op.done[far] != Time::never()) {
      grant_ahead(now, l, settled_[l] + ahead(l), op.done[far] + settings_.delay[far]);
    }
  }
}

/// Lets the ranks enter that are free. Each does from its own last end what the real rank did that
/// was seen to enter, and its own delay.
void OnlineEmulatedRanks::enter(OnlineOperation& op) {
  if (!op.began) return;
  const OnlineOperation* before = op.number > first_ ? at(op.number - 1) : nullptr;
  for (uint32_t r = 0; r < job_.ranks(); ++r) {
    if (job_.is_real(r) || op.entered[r]) continue;
    const Time free = before != nullptr ? before->done[r] : start_;
    if (free.is_never()) continue;
    const Duration own = op.delay[r];
    const Time entry = op.shown.heard
                           ? std::max({free, op.shown.entry, free + (own + op.shown.later)})
                           : RankEntries::with_it(own, own, free, op.shown);
    op.entered[r] = true;
    op.first_entry = std::min(op.first_entry, entry);
    op.plan->enter(r, entry);
  }
}

/// Takes what the plan has to say; what it sets free carries `carried`.
void OnlineEmulatedRanks::take(Time now, OnlineOperation& op, Duration carried) {
  PlanOutput out;
  while (op.plan->next(out)) {
    if (!inner_.empty()) {
      const uint32_t inner = op.shape->inner[out.rank][out.connection];
      if (inner != CollectiveShape::kUnused) {
        take_inner(now, op, inner, out);
        continue;
      }
    }
    const uint32_t link = op.shape->links[out.rank].at(out.connection);
    if (link == CollectiveShape::kUnused) continue;
    Link& l = links_[link];
    const uint64_t k = op.base[link] + out.message;
    if (out.kind == PlanOutput::Kind::kCredit) {
      grant_ahead(now, link, k + 1, out.time);
      continue;
    }
    if (k < l.released) continue;  // by the plan before
    l.released = k + 1;
    // A run that was told the operation could not have sent before the real rank's entry was known.
    const Time earliest = std::max(out.time, op.noticed);
    const Duration late = earliest < now ? now - earliest : Duration();
    count_late(op, late);
    op.carried = std::max(op.carried, op.lateness.add(link, out.message, carried + late));
    leaving_.push_back({std::max(now, out.time), cookie(WakeKind::kData, link, l.plans)});
  }
  // Of what leaves at one moment credits go first: NICs have them in the work request.
  for (const Leaving& data : leaving_) host_->wake_at(data.at, *this, data.cookie);
  leaving_.clear();
  uint32_t rank = 0;
  bool freed = false;
  while (op.plan->next_done(rank)) {
    op.done[rank] = op.plan->completion(rank);
    freed = true;
    for (const uint32_t l : heard_of_[rank]) {
      // Of sends that may be longer than was guessed none waits for that to be found.
      if (!op.over && job_.links[l].index == 0) continue;
      grant_ahead(now, l, op.base[l] + op.shape->uses[l].messages + ahead(l),
                  op.done[rank] + settings_.delay[rank]);
    }
    for (const uint32_t i : inner_of_[rank]) {
      const uint64_t end = op.inner_base[i] + op.shape->inner_uses[i].messages;
      grant_inner(now, i, end + ahead(job_.inner[i].index), op.done[rank]);
    }
  }
  if (freed && op.number + 1 < known_) {
    OnlineOperation& next = *at(op.number + 1);
    enter(next);
    take(now, next, Duration());
    tell_put_off(now, next);
  }
}

/// Counts operations that are wholly over. The last one stays: ranks enter the next one when they
/// have done it.
void OnlineEmulatedRanks::finish(Time now) {
  while (finished_ < known_) {
    OnlineOperation& op = *at(finished_);
    if (!op.over || op.acknowledged < op.to_acknowledge || !op.plan->finished()) return;
    op.finished = true;
    ++finished_;
    report(op);
    OnlineOperation* before = op.number > first_ ? at(op.number - 1) : nullptr;
    if (before != nullptr) ++first_;
    notify(now, {.kind = OnlineNotice::Kind::kFinished, .number = op.number, .operation = &op});
    if (before != nullptr) {
      notify(now, {.kind = OnlineNotice::Kind::kReleased, .operation = before});
    }
  }
  if (ended_) end_inner();
}

void OnlineEmulatedRanks::report(OnlineOperation& op) {
  for (uint64_t i = oldest_; i < newest_ && !op.sure; ++i) {
    const Input& in = inputs_[i & (inputs_.size() - 1)];
    if (in.kind != Input::Kind::kAcknowledgement || in.message < op.base[in.link]) continue;
    if (in.message >= op.base[in.link] + op.shape->uses[in.link].messages) continue;
    op.wrong_sizes += in.bytes != wire(op, in.link, in.message - op.base[in.link]) ? 1 : 0;
  }
  if (op.number >= progress_.results.size()) return;
  CollectiveResult& result = progress_.results[op.number];
  result.entry = op.first_entry;
  result.end = std::max(op.first_entry, op.end);
  result.lateness = op.carried;
  result.size_mismatches = op.wrong_sizes;
  result.bytes_sent = op.bytes_sent;
  result.bytes_received = op.bytes_received;
  progress_.finished.store(static_cast<uint32_t>(op.number + 1), std::memory_order_release);
}

}  // namespace understudy
