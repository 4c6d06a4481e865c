#include "dataplane/node/reactive_environment.h"

#include <algorithm>
#include <bit>

namespace understudy {
namespace {

constexpr size_t kCommandRing = 1024;

uint32_t capacity_of(const NcclSender& sender, uint64_t k) {
  return static_cast<uint32_t>(std::min<uint64_t>(sender.capacity(k), kMaxMessageBytes));
}

}  // namespace

ReactiveEnvironment::ReactiveEnvironment(const CollectiveJob& job, CollectiveProgress& progress,
                                         Settings settings, ReactiveListener& listener)
    : job_(job),
      progress_(progress),
      settings_(std::move(settings)),
      listener_(listener),
      commands_(kCommandRing),
      links_(job.links.size()),
      heard_of_(job.ranks()),
      settled_(job.links.size()),
      inputs_(std::bit_ceil(std::max<size_t>(settings_.inputs, 1024))) {
  for (uint32_t l = 0; l < links_.size(); ++l) {
    ends_.emplace_back(*this, l);
    if (job.links[l].real_sends) heard_of_[job.links[l].far].push_back(l);
  }
  pair_reflections();
}

void ReactiveEnvironment::pair_reflections() {
  reflected_.resize(job_.links.size(), kNoLink);
  reflecting_.resize(job_.links.size());
  std::vector<uint32_t> heard;  // by channel
  for (uint32_t l = 0; l < job_.links.size(); ++l) {
    const CollectiveLink& link = job_.links[l];
    if (link.index != 0 || !link.real_sends || link.among_real()) continue;
    if (link.channel >= heard.size()) heard.resize(link.channel + 1, kNoLink);
    if (heard[link.channel] == kNoLink) heard[link.channel] = l;
  }
  for (uint32_t l = 0; l < job_.links.size(); ++l) {
    const CollectiveLink& link = job_.links[l];
    if (link.index != 0 || link.real_sends || link.among_real()) continue;
    if (link.channel >= heard.size() || heard[link.channel] == kNoLink) continue;
    reflected_[l] = heard[link.channel];
    reflecting_[heard[link.channel]].push_back(l);
  }
}

/// Small messages of an all-gather over a ring are copies of what a real rank has sent, so each
/// leaves after its like has come. A rank sends its own slice without having received anything, and
/// each later one after no more than it has received: nobody waits for ever.
bool ReactiveEnvironment::waits_for_reflection(const ReactiveOperation& op, uint32_t link,
                                               uint32_t bytes) const {
  const Link& l = links_[link];
  const uint32_t from = reflected_[link];
  if (!op.shape->gathers || !l.sender.reflects() || bytes > Reflection::kMost) return false;
  if (from == kNoLink || given_up_) return false;
  const uint64_t k = l.sent - op.base[link];
  return k < op.shape->uses[from].messages && links_[from].received <= op.base[from] + k;
}

void ReactiveEnvironment::on_wake(Time now, uint64_t cookie) {
  const auto what = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 48)) {
    case WakeKind::kControl:
      if (what == kStart) {
        for (uint32_t l = 0; l < links_.size(); ++l) {
          if (job_.links[l].real_sends) grant_ahead(now, l, ahead(l), now);
        }
      }
      for (ReactiveCommand command; commands_.pop(command);) carry_out(now, command);
      break;
    case WakeKind::kData: {
      Link& l = links_[what];
      if (l.plans != static_cast<uint16_t>(cookie >> 32)) break;  // of a plan that was replaced
      ++l.due;
      send_due(now, what);
      break;
    }
    case WakeKind::kCredit:
      grant(now, what);
      break;
    case WakeKind::kWaited:
      if (what != static_cast<uint32_t>(known_)) break;  // it is known by now
      notify(now, {.kind = ReactiveNotice::Kind::kWaited, .number = known_});
      break;
    case WakeKind::kReminder:
      notify(now, {.kind = ReactiveNotice::Kind::kReminder, .number = what});
      break;
    case WakeKind::kJoin:
      join(now, what);
      break;
    case WakeKind::kLeave:
      links_[what].joined = false;
      break;
  }
}

void ReactiveEnvironment::join(Time now, uint32_t link) {
  Link& l = links_[link];
  l.joined = true;
  for (; l.owed > 0; --l.owed) grant(now, link);
  if (!job_.links[link].real_sends) on_credit(now, link);
}

void ReactiveEnvironment::grant(Time now, uint32_t link) {
  Link& l = links_[link];
  if (l.joined) {
    l.receiver.grant(now, *host_);
  } else {
    ++l.owed;
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

void ReactiveEnvironment::End::on_received(Time now, Qp& qp, const Received& message) {
  if (!all_.job_.links[link_].real_sends) return all_.on_credit(now, link_);
  all_.links_[link_].receiver.received(qp, message,
                                       [&](uint32_t bytes) { all_.on_data(now, link_, bytes); });
}

void ReactiveEnvironment::End::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    all_.progress_.failed = true;
    return;
  }
  if (all_.job_.links[link_].real_sends) return;  // a credit of ours
  all_.links_[link_].sender.acknowledged(
      qp, id, [&](uint64_t message) { all_.on_acknowledged(now, link_, message); });
}

void ReactiveEnvironment::on_acknowledged(Time now, uint32_t link, uint64_t message) {
  input(now, {.kind = Input::Kind::kAcknowledgement,
              .link = link,
              .bytes = links_[link].bytes_of[message % kUnderWay],
              .message = message,
              .time = now});
  notify(now, {.kind = ReactiveNotice::Kind::kAcknowledged, .link = link});
}

void ReactiveEnvironment::End::on_transmitted(Time scheduled, Time actual, Qp&, uint64_t id) {
  Link& l = all_.links_[link_];
  if (all_.job_.links[link_].real_sends || !NcclSender::is_message(id)) return;
  if (id < l.transmitted) return;  // sent again
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
  while (l.joined && l.sender.has_credit(l.credits)) {
    const uint64_t k = l.credits++;
    input(now, {.kind = Input::Kind::kCredit,
                .link = link,
                .bytes = capacity_of(l.sender, k),
                .message = k,
                .time = now});
  }
  send_due(now, link);
}

void ReactiveEnvironment::on_data(Time now, uint32_t link, uint32_t bytes) {
  Link& l = links_[link];
  if (l.received == l.receiver.granted()) {
    ++progress_.violations;
    return;
  }
  const uint64_t k = l.received++;
  input(now, {.kind = Input::Kind::kData, .link = link, .bytes = bytes, .message = k, .time = now});
  if (given_up_) grant_ahead(now, link, l.received + ahead(link), now);
  for (const uint32_t other : reflecting_[link]) send_due(now, other);
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
  ReactiveOperation* op = operation_of(input.link, input.message);
  // It was told, or put off, if control has just handed over its operation.
  const bool looked_at = inputs_[place & (inputs_.size() - 1)].fed ||
                         (op != nullptr && !op->put_off.empty() && op->put_off.back() == place);
  if (op != nullptr && !looked_at) {
    if (!feed(now, *op, place)) return;
    tell_put_off(now, *op);
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

/// Grants credits of a link up to `until`, at a time.
void ReactiveEnvironment::grant_ahead(Time now, uint32_t link, uint64_t until, Time at) {
  for (Link& l = links_[link]; l.granting < until; ++l.granting) {
    host_->wake_at(std::max(now, at), *this, cookie(WakeKind::kCredit, link));
  }
}

void ReactiveEnvironment::send_due(Time now, uint32_t link) {
  Link& l = links_[link];
  if (job_.links[link].real_sends || !l.joined) return;
  while ((given_up_ || l.sent < l.due) && l.sender.has_credit(l.sent)) {
    uint32_t bytes = capacity_of(l.sender, l.sent);
    ReactiveOperation* op = operation_of(link, l.sent);
    if (op != nullptr) {
      bytes = std::min(bytes, wire(*op, link, l.sent - op->base[link]));
      if (waits_for_reflection(*op, link, bytes)) return;
    }
    if (!l.sender.send(now, *host_, l.sent, bytes, PayloadRef{}, l.sent)) return;
    if (given_up_ && op != nullptr && !op->sure) {
      l.sender.lengthen(now, *host_, l.sent, kMaxMessageBytes);  // nobody knows how long it is
    }
    if (op != nullptr) op->bytes_sent += bytes;
    l.bytes_of[l.sent % kUnderWay] = bytes;
    ++l.sent;
  }
}

void ReactiveEnvironment::give_up(Time now) {
  if (given_up_) return;
  given_up_ = true;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (job_.links[l].real_sends) {
      grant_ahead(now, l, links_[l].received + ahead(l), now);
    } else {
      lengthen(now, l, nullptr);
      send_due(now, l);
    }
  }
}

}  // namespace understudy
