#include "dataplane/node/reactive_environment.h"

#include <algorithm>
#include <bit>

namespace understudy {
namespace {

/// Credits that stay granted beyond what an operation needs: those that every operation begins
/// with.
constexpr uint64_t kAhead = 4;
constexpr size_t kCommandRing = 1024;

}  // namespace

ReactiveEnvironment::ReactiveEnvironment(const CollectiveJob& job, CollectiveProgress& progress,
                                         Settings settings, ReactiveListener& listener)
    : job_(job),
      progress_(progress),
      settings_(std::move(settings)),
      listener_(listener),
      commands_(kCommandRing),
      links_(job.links.size()),
      settled_(job.links.size()),
      inputs_(std::bit_ceil(std::max<size_t>(settings_.inputs, 1024))) {
  for (uint32_t l = 0; l < links_.size(); ++l) ends_.emplace_back(*this, l);
}

void ReactiveEnvironment::on_wake(Time now, uint64_t cookie) {
  const auto what = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 32)) {
    case WakeKind::kControl:
      if (what == kStart) {
        for (uint32_t l = 0; l < links_.size(); ++l) {
          if (job_.links[l].real_sends) grant_ahead(now, l, kAhead, now);
        }
      }
      for (ReactiveCommand command; commands_.pop(command);) carry_out(now, command);
      break;
    case WakeKind::kData: {
      Link& l = links_[what & 0xffff];
      if (l.plans != what >> 16) break;  // of a plan that was replaced
      ++l.due;
      send_due(now, what & 0xffff);
      break;
    }
    case WakeKind::kCredit:
      links_[what].receiver.grant(now, *host_);
      break;
    case WakeKind::kWaited:
      if (what != static_cast<uint32_t>(known_)) break;  // it is known by now
      notify(now, {.kind = ReactiveNotice::Kind::kWaited, .number = known_});
      break;
    case WakeKind::kReminder:
      notify(now, {.kind = ReactiveNotice::Kind::kReminder, .number = what});
      break;
  }
}

void ReactiveEnvironment::carry_out(Time now, const ReactiveCommand& command) {
  switch (command.kind) {
    case ReactiveCommand::Kind::kInstall:
      install(now, *command.operation);
      break;
    case ReactiveCommand::Kind::kOver:
      if (last() != nullptr && !last()->over) settle(now, *last());
      finish(now);
      look_for_next(now, oldest_);
      break;
    case ReactiveCommand::Kind::kGiveUp:
      give_up(now);
      break;
    case ReactiveCommand::Kind::kRemind:
      host_->wake_at(std::max(now, command.time), *this,
                     cookie(WakeKind::kReminder, static_cast<uint32_t>(command.number)));
      break;
  }
}

/// What control cannot be told it does not know: it has lost track.
bool ReactiveEnvironment::notify(Time now, const ReactiveNotice& notice) {
  const bool heard = listener_.on_notice(now, notice);
  if (!heard) give_up(now);
  return heard;
}

void ReactiveEnvironment::End::on_received(Time now, Qp&, const Received& message) {
  if (!all_.job_.links[link_].real_sends) {
    all_.on_credit(now, link_);
  } else if (message.has_imm) {
    all_.on_data(now, link_, message);
  }
}

void ReactiveEnvironment::End::on_completed(Time now, Qp&, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    all_.progress_.failed = true;
    return;
  }
  if (all_.job_.links[link_].real_sends) return;  // a credit of ours
  all_.input(now, {.kind = Input::Kind::kAcknowledgement,
                   .link = link_,
                   .bytes = all_.links_[link_].bytes_of[id % kCtsSlots],
                   .message = id,
                   .time = now});
}

void ReactiveEnvironment::End::on_transmitted(Time scheduled, Time actual, Qp&, uint64_t id) {
  Link& l = all_.links_[link_];
  if (all_.job_.links[link_].real_sends || id < l.transmitted) return;  // or sent again
  l.transmitted = id + 1;
  if (ReactiveOperation* op = all_.operation_of(link_, id); op != nullptr && !op->finished) {
    op->carried =
        std::max(op->carried, op->lateness.add(link_, id - op->base[link_], actual - scheduled));
  }
  all_.notify(actual, {.kind = ReactiveNotice::Kind::kSent, .link = link_});
}

/// The operation that is known to have this message; null if none is.
ReactiveOperation* ReactiveEnvironment::operation_of(uint32_t link, uint64_t message) const {
  for (uint64_t n = first_; n < known_; ++n) {
    ReactiveOperation& op = *at(n);
    if (message < op.base[link]) return nullptr;
    if (message < op.base[link] + op.shape->uses[link].messages) return &op;
  }
  return nullptr;
}

uint32_t ReactiveEnvironment::wire(const ReactiveOperation& op, uint32_t link, uint64_t k) const {
  return op.shape->real[job_.real_index[job_.links[link].real]]
      ->message(op.shape->uses[link].real, k)
      .wire;
}

void ReactiveEnvironment::on_credit(Time now, uint32_t link) {
  Link& l = links_[link];
  while (l.sender.has_credit(l.credits)) {
    const uint64_t k = l.credits++;
    input(now, {.kind = Input::Kind::kCredit,
                .link = link,
                .bytes = static_cast<uint32_t>(l.sender.capacity(k)),
                .message = k,
                .time = now});
  }
  send_due(now, link);
}

void ReactiveEnvironment::on_data(Time now, uint32_t link, const Received& message) {
  Link& l = links_[link];
  if (l.received == l.receiver.granted()) {
    ++progress_.violations;
    return;
  }
  const uint64_t k = l.received++;
  input(now, {.kind = Input::Kind::kData,
              .link = link,
              .bytes = message.length,
              .message = k,
              .time = now});
  if (given_up_) grant_ahead(now, link, l.received + kAhead, now);
}

/// Keeps an input, tells control of it, and gives it to the plan that it belongs to by then.
void ReactiveEnvironment::input(Time now, Input input) {
  if (given_up_) return;
  if (newest_ - oldest_ == inputs_.size()) {
    notify(now, {.kind = ReactiveNotice::Kind::kOverfull, .link = input.link});
    return give_up(now);
  }
  const uint64_t place = newest_++;
  inputs_[place & (inputs_.size() - 1)] = input;
  if (input.kind != Input::Kind::kAcknowledgement) {
    look_for_next(now, place);
    const bool credit = input.kind == Input::Kind::kCredit;
    notify(now, {.kind = credit ? ReactiveNotice::Kind::kCredit : ReactiveNotice::Kind::kData,
                 .link = input.link,
                 .bytes = input.bytes});
    if (given_up_) return;
  }
  Input& kept = inputs_[place & (inputs_.size() - 1)];
  if (!kept.fed) {
    if (ReactiveOperation* op = operation_of(kept.link, kept.message)) {
      if (!feed(now, *op, kept)) return;
    }
  }
  finish(now);
  trim();
}

/// Something has come, `from` on, of the operation after the last one, which is over: control is
/// told, now, and once the real ranks' own first messages have had time to come, if they need
/// nothing of ours.
void ReactiveEnvironment::look_for_next(Time now, uint64_t from) {
  if (given_up_ || begun_ > known_ || (last() != nullptr && !last()->over)) return;
  for (uint64_t i = from; i < newest_; ++i) {
    const Input& in = inputs_[i & (inputs_.size() - 1)];
    if (in.kind == Input::Kind::kAcknowledgement || in.message < settled_[in.link]) continue;
    begun_ = known_ + 1;
    host_->wake_at(std::max(now, in.time + settings_.wait[in.link]), *this,
                   cookie(WakeKind::kWaited, static_cast<uint32_t>(known_)));
    notify(now, {.kind = ReactiveNotice::Kind::kBegan,
                 .link = in.link,
                 .number = known_,
                 .entry = in.time - job_.links[in.link].latency});
    return;
  }
}

/// Forgets inputs of operations that nothing will replace.
void ReactiveEnvironment::trim() {
  for (; oldest_ < newest_; ++oldest_) {
    const Input& in = inputs_[oldest_ & (inputs_.size() - 1)];
    const ReactiveOperation* op = operation_of(in.link, in.message);
    if (op == nullptr ? in.message >= settled_[in.link] : !in.fed || (!op->sure && !op->finished)) {
      return;
    }
  }
}

/// What came is what the operation has there. A guess is not held to it.
bool ReactiveEnvironment::agrees(Time now, const ReactiveOperation& op, const Input& input) {
  if (!op.sure || input.kind == Input::Kind::kAcknowledgement) return true;
  const uint32_t link = input.link;
  const bool credit = input.kind == Input::Kind::kCredit;
  const RankSchedule& real = *op.shape->real[job_.real_index[job_.links[link].real]];
  const uint32_t expected = credit ? real.connections()[op.shape->uses[link].real].capacity
                                   : wire(op, link, input.message - op.base[link]);
  if (input.bytes == expected) return true;
  notify(now, {.kind = ReactiveNotice::Kind::kDisagrees,
               .link = link,
               .bytes = input.bytes,
               .credit = credit,
               .expected = expected,
               .number = op.number});
  give_up(now);
  return false;
}

/// Tells an operation's plan what has come of it. False if that is not the operation.
bool ReactiveEnvironment::feed(Time now, ReactiveOperation& op, Input& input) {
  if (!agrees(now, op, input)) return false;
  input.fed = true;
  const uint32_t link = input.link;
  const uint64_t k = input.message - op.base[link];
  const uint32_t rank = job_.links[link].emulated, connection = op.shape->uses[link].emulated;
  if (input.kind != Input::Kind::kAcknowledgement && !op.began) {
    op.began = true;
    op.entry = input.time - job_.links[link].latency;
    op.noticed = input.time;
    enter(op);
    take(now, op, Duration());
  }
  switch (input.kind) {
    case Input::Kind::kCredit:
      return true;
    case Input::Kind::kAcknowledgement:
      ++op.acknowledged;
      op.end = std::max(op.end, input.time);
      op.plan->on_acknowledged(rank, connection, k, input.time);
      take(now, op, op.heard);
      return true;
    case Input::Kind::kData:
      break;
  }
  op.end = std::max(op.end, input.time);
  op.bytes_received += input.bytes;
  const Duration late = op.lateness.of_real(link, k) + host_->arrival_uncertainty();
  op.heard = std::max(op.heard, late);
  if (!op.plan->on_real_data(rank, connection, k, input.time) && op.sure) ++progress_.violations;
  take(now, op, late);
  return true;
}

void ReactiveEnvironment::install(Time now, ReactiveOperation& op) {
  ReactiveOperation* before = op.number + 1 == known_ ? last() : nullptr;
  if (before != nullptr) {
    op.late = before->late;
    op.late_messages = before->late_messages;
    op.carried = before->carried;
  } else {
    ++known_;
  }
  operations_[op.number % kMost] = &op;
  op.base = settled_;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (!job_.links[l].real_sends) op.to_acknowledge += op.shape->uses[l].messages;
  }
  if (op.sure) settle(now, op);
  replay(now, op);
  if (before != nullptr) {
    notify(now, {.kind = ReactiveNotice::Kind::kReleased, .operation = before});
  }
  finish(now);
  look_for_next(now, oldest_);
}

/// Tells a new plan all that has come.
void ReactiveEnvironment::replay(Time now, ReactiveOperation& op) {
  // What the plan before released and is not due yet is released anew.
  for (uint32_t l = 0; l < links_.size(); ++l) {
    Link& link = links_[l];
    if (job_.links[l].real_sends || link.released <= op.base[l]) continue;
    if (link.due < op.base[l]) continue;  // with the end of the operation before
    const uint64_t end = std::max(op.base[l] + op.shape->uses[l].messages, link.sent);
    link.due = std::min(link.due, end);
    link.released = std::max(link.due, op.base[l]);
    link.plans = static_cast<uint16_t>(link.plans + 1);
  }
  op.plan->begin();
  op.lateness.begin(*op.shape);
  for (uint64_t i = oldest_; i < newest_ && !given_up_; ++i) {
    Input& in = inputs_[i & (inputs_.size() - 1)];
    if (in.message < op.base[in.link]) continue;
    if (in.message >= op.base[in.link] + op.shape->uses[in.link].messages) continue;
    if (!feed(now, op, in)) return;
  }
  for (uint32_t l = 0; l < links_.size(); ++l) send_due(now, l);
}

/// Nothing will replace the operation: its end is where the next one begins. Its ranks' first
/// credits of that leave when they are done.
void ReactiveEnvironment::settle(Time now, ReactiveOperation& op) {
  op.over = true;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    settled_[l] = op.base[l] + op.shape->uses[l].messages;
    const CollectiveLink& link = job_.links[l];
    if (link.real_sends && op.done[link.emulated] != Time::never()) {
      grant_ahead(now, l, settled_[l] + kAhead, op.done[link.emulated]);
    }
  }
}

/// Lets the ranks enter that are free.
void ReactiveEnvironment::enter(ReactiveOperation& op) {
  if (!op.began) return;
  const ReactiveOperation* before = op.number > first_ ? at(op.number - 1) : nullptr;
  for (uint32_t r = 0; r < job_.ranks(); ++r) {
    if (job_.is_real(r) || op.entered[r]) continue;
    Time entry = op.entry + settings_.delay[r];
    if (before != nullptr) {
      if (before->done[r] == Time::never()) continue;
      entry = std::max(entry, before->done[r]);
    }
    op.entered[r] = true;
    op.first_entry = std::min(op.first_entry, entry);
    op.plan->enter(r, entry);
  }
}

/// Takes what the plan has to say; what it sets free carries `carried`.
void ReactiveEnvironment::take(Time now, ReactiveOperation& op, Duration carried) {
  EnvironmentOutput out;
  while (op.plan->next(out)) {
    const std::vector<uint32_t>& links = op.shape->links[out.rank];
    const uint32_t link = links.empty() ? CollectiveShape::kUnused : links[out.connection];
    if (link == CollectiveShape::kUnused) continue;
    Link& l = links_[link];
    const uint64_t k = op.base[link] + out.message;
    if (out.kind == EnvironmentOutput::Kind::kCredit) {
      grant_ahead(now, link, k + 1, out.time);
      continue;
    }
    if (k < l.released) continue;  // by the plan before
    l.released = k + 1;
    // A run that was told the operation could not have sent before the real rank's entry was known.
    const Time earliest = std::max(out.time, op.noticed);
    const Duration late = earliest < now ? now - earliest : Duration();
    if (late > Duration()) ++op.late_messages;
    op.late = std::max(op.late, late);
    op.carried = std::max(op.carried, op.lateness.add(link, out.message, carried + late));
    host_->wake_at(std::max(now, out.time), *this,
                   cookie(WakeKind::kData, uint64_t{l.plans} << 16 | link));
  }
  uint32_t rank = 0;
  bool freed = false;
  while (op.plan->next_done(rank)) {
    op.done[rank] = op.plan->completion(rank);
    freed = true;
    for (uint32_t l = 0; l < links_.size() && op.over; ++l) {
      if (!job_.links[l].real_sends || job_.links[l].emulated != rank) continue;
      grant_ahead(now, l, op.base[l] + op.shape->uses[l].messages + kAhead, op.done[rank]);
    }
  }
  if (freed && op.number + 1 < known_) {
    ReactiveOperation& next = *at(op.number + 1);
    enter(next);
    take(now, next, Duration());
  }
}

/// Grants credits of a link up to `until`, at a time.
void ReactiveEnvironment::grant_ahead(Time now, uint32_t link, uint64_t until, Time at) {
  for (Link& l = links_[link]; l.granting < until; ++l.granting) {
    host_->wake_at(std::max(now, at), *this, cookie(WakeKind::kCredit, link));
  }
}

/// Counts operations that are wholly over. The last one stays: ranks enter the next one when they
/// have done it.
void ReactiveEnvironment::finish(Time now) {
  while (finished_ < known_) {
    ReactiveOperation& op = *at(finished_);
    if (!op.over || op.acknowledged < op.to_acknowledge || !op.plan->finished()) return;
    op.finished = true;
    ++finished_;
    report(op);
    ReactiveOperation* before = op.number > first_ ? at(op.number - 1) : nullptr;
    if (before != nullptr) ++first_;
    notify(now, {.kind = ReactiveNotice::Kind::kFinished, .number = op.number, .operation = &op});
    if (before != nullptr) {
      notify(now, {.kind = ReactiveNotice::Kind::kReleased, .operation = before});
    }
  }
}

void ReactiveEnvironment::report(ReactiveOperation& op) {
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

void ReactiveEnvironment::send_due(Time now, uint32_t link) {
  Link& l = links_[link];
  if (job_.links[link].real_sends) return;
  while ((given_up_ || l.sent < l.due) && l.sender.has_credit(l.sent)) {
    auto bytes = static_cast<uint32_t>(l.sender.capacity(l.sent));
    ReactiveOperation* op = operation_of(link, l.sent);
    if (op != nullptr) bytes = std::min(bytes, wire(*op, link, l.sent - op->base[link]));
    if (!l.sender.send(now, *host_, l.sent, bytes, PayloadRef{}, l.sent)) return;
    if (op != nullptr) op->bytes_sent += bytes;
    l.bytes_of[l.sent % kCtsSlots] = bytes;
    ++l.sent;
  }
}

void ReactiveEnvironment::give_up(Time now) {
  if (given_up_) return;
  given_up_ = true;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (job_.links[l].real_sends) {
      grant_ahead(now, l, links_[l].received + kAhead, now);
    } else {
      send_due(now, l);
    }
  }
}

}  // namespace understudy
