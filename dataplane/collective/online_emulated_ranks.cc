#include "dataplane/collective/online_emulated_ranks.h"

#include <algorithm>
#include <bit>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

constexpr size_t kCommandRing = 1024;

uint32_t capacity_of(const NcclSender& sender, uint64_t k) {
  return static_cast<uint32_t>(std::min<uint64_t>(sender.capacity(k), kMaxMessageBytes));
}

}  // namespace

OnlineEmulatedRanks::OnlineEmulatedRanks(const CollectiveJob& job, CollectiveProgress& progress,
                                         Settings settings, OnlineListener& listener)
    : job_(job),
      progress_(progress),
      settings_(std::move(settings)),
      listener_(listener),
      commands_(kCommandRing),
      connections_(job, progress, *this),
      entries_(job),
      links_(job.links.size()),
      inner_(job.inner.size()),
      heard_of_(job.ranks()),
      inner_of_(job.ranks()),
      settled_(job.links.size()),
      inputs_(std::bit_ceil(std::max<size_t>(settings_.inputs, 1024))) {
  ASSERT_INVARIANT(settings_.delay.size() == job.ranks());
  ASSERT_INVARIANT(settings_.wait.size() == links_.size());
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (hears(l)) heard_of_[job.links[l].far].push_back(l);
  }
  ASSERT_INVARIANT((settings_.carrier == nullptr) == job.inner.empty());
  if (settings_.carrier != nullptr) settings_.carrier->listen(*this);
  for (uint32_t i = 0; i < inner_.size(); ++i) inner_of_[job.inner[i].to].push_back(i);
  pair_reflections();
}

void OnlineEmulatedRanks::pair_reflections() {
  reflected_.resize(job_.links.size(), kNoLink);
  reflecting_.resize(job_.links.size());
  std::vector<uint32_t> heard;  // by channel
  for (uint32_t l = 0; l < job_.links.size(); ++l) {
    const CollectiveConnection& link = job_.links[l];
    if (link.index != 0 || !link.real_sends || link.among_real()) continue;
    if (link.channel >= heard.size()) heard.resize(link.channel + 1, kNoLink);
    if (heard[link.channel] == kNoLink) heard[link.channel] = l;
  }
  for (uint32_t l = 0; l < job_.links.size(); ++l) {
    const CollectiveConnection& link = job_.links[l];
    if (link.index != 0 || link.real_sends || link.among_real()) continue;
    if (link.channel >= heard.size() || heard[link.channel] == kNoLink) continue;
    reflected_[l] = heard[link.channel];
    reflecting_[heard[link.channel]].push_back(l);
  }
}

/// Small messages of an all-gather over a ring are copies of what a real rank has sent, so each
/// leaves after its like has come. A rank sends its own slice without having received anything, and
/// each later one after no more than it has received: nobody waits for ever.
bool OnlineEmulatedRanks::waits_for_reflection(const OnlineOperation& op, uint32_t link,
                                               uint32_t bytes) const {
  const uint32_t from = reflected_[link];
  if (!op.shape->gathers || !connections_.sender(link).reflects() || bytes > Reflection::kMost)
    return false;
  if (from == kNoLink || given_up_) return false;
  const uint64_t k = links_[link].sent - op.base[link];
  return k < op.shape->uses[from].messages && links_[from].received <= op.base[from] + k;
}

void OnlineEmulatedRanks::on_wake(Time now, uint64_t cookie) {
  if (connections_.wake(now, *host_, cookie)) return;
  const auto what = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 48)) {
    case WakeKind::kControl:
      if (what == kForget) {
        if (settings_.carrier != nullptr) settings_.carrier->forget(now);
        break;
      }
      if (what == kLook) {
        look();
        break;
      }
      if (what == kStart) {
        start_ = now;
        entries_.start(now);
        for (uint32_t l = 0; l < links_.size(); ++l) {
          if (hears(l)) grant_ahead(now, l, ahead(l), now);
        }
        for (uint32_t i = 0; i < inner_.size(); ++i) {
          grant_inner(now, i, ahead(job_.inner[i].index), now);
        }
      }
      for (OnlineCommand command; commands_.pop(command);) carry_out(now, command);
      break;
    case WakeKind::kData: {
      Link& l = links_[what];
      if (l.plans != static_cast<uint16_t>(cookie >> 32)) break;  // of a plan that was replaced
      ++l.due;
      send_due(now, what);
      break;
    }
    case WakeKind::kWaited:
      if (what != static_cast<uint32_t>(known_)) break;  // it is known by now
      notify(now, {.kind = OnlineNotice::Kind::kWaited, .number = known_});
      break;
    case WakeKind::kInnerData:
      post_inner(now, what);
      break;
    case WakeKind::kInnerCredit:
      if (!inner_ended_) settings_.carrier->grant(what, now);
      break;
    case WakeKind::kInnerReaches:
      settings_.carrier->reach(what, now);
      break;
    case WakeKind::kReminder:
      notify(now, {.kind = OnlineNotice::Kind::kReminder, .number = what});
      break;
  }
}

void OnlineEmulatedRanks::carry_out(Time now, const OnlineCommand& command) {
  switch (command.kind) {
    case OnlineCommand::Kind::kInstall:
      DEBUG_ASSERT_INVARIANT(command.operation != nullptr);
      install(now, *command.operation);
      break;
    case OnlineCommand::Kind::kOver:
      if (last() != nullptr && !last()->over) settle(now, *last());
      finish(now);
      look_for_next(now, oldest_);
      break;
    case OnlineCommand::Kind::kGiveUp:
      give_up(now);
      break;
    case OnlineCommand::Kind::kEnd:
      ended_ = true;
      finish(now);
      break;
    case OnlineCommand::Kind::kRemind:
      host_->wake_at(std::max(now, command.time), *this,
                     cookie(WakeKind::kReminder, static_cast<uint32_t>(command.number)));
      break;
  }
}

/// What control cannot be told it does not know: it has lost track.
bool OnlineEmulatedRanks::notify(Time now, const OnlineNotice& notice) {
  const bool heard = listener_.on_notice(now, notice);
  if (!heard) give_up(now);
  return heard;
}

void OnlineEmulatedRanks::on_acknowledged(Time now, uint32_t link, uint64_t message) {
  entries_.acknowledged(link, now);
  ++links_[link].acknowledged;
  input(now, {.kind = Input::Kind::kAcknowledgement,
              .link = link,
              .bytes = links_[link].bytes_of[message % kUnderWay],
              .message = message,
              .time = now});
  notify(now, {.kind = OnlineNotice::Kind::kAcknowledged, .link = link});
}

void OnlineEmulatedRanks::on_left(Time scheduled, Time actual, uint32_t link, uint64_t message) {
  Link& l = links_[link];
  if (message < l.transmitted) return;  // sent again
  l.transmitted = message + 1;
  entries_.left(link, actual);
  if (OnlineOperation* op = operation_of(link, message); op != nullptr && !op->finished) {
    const uint64_t k = message - op->base[link];
    op->carried = std::max(op->carried, op->lateness.add(link, k, actual - scheduled));
  }
  notify(actual, {.kind = OnlineNotice::Kind::kSent, .link = link});
}

/// The operation that is known to have this message; null if none is.
OnlineOperation* OnlineEmulatedRanks::operation_of(uint32_t link, uint64_t message) const {
  for (uint64_t n = first_; n < known_; ++n) {
    OnlineOperation& op = *at(n);
    if (message < op.base[link]) return nullptr;
    if (message < op.base[link] + op.shape->uses[link].messages) return &op;
  }
  return nullptr;
}

uint32_t OnlineEmulatedRanks::wire(const OnlineOperation& op, uint32_t link, uint64_t k) const {
  return op.shape->real[job_.real_index[job_.links[link].real]]
      ->message(op.shape->uses[link].real, k)
      .wire;
}

void OnlineEmulatedRanks::on_credit(Time now, uint32_t link) {
  Link& l = links_[link];
  const NcclSender& sender = connections_.sender(link);
  DEBUG_ASSERT_INVARIANT(!job_.links[link].real_sends);
  while (connections_.joined(link) && connections_.has_credit(link, l.credits)) {
    const uint64_t k = l.credits++;
    input(now, {.kind = Input::Kind::kCredit,
                .link = link,
                .bytes = capacity_of(sender, k),
                .message = k,
                .time = now});
  }
  send_due(now, link);
}

void OnlineEmulatedRanks::on_data(Time now, uint32_t link, uint32_t bytes) {
  Link& l = links_[link];
  if (l.received == connections_.receiver(link).granted()) {
    ++progress_.violations;
    return;
  }
  const uint64_t k = l.received++;
  input(now, {.kind = Input::Kind::kData, .link = link, .bytes = bytes, .message = k, .time = now});
  entries_.received(link, now);
  if (given_up_) grant_ahead(now, link, l.received + ahead(link), now);
  for (const uint32_t other : reflecting_[link]) send_due(now, other);
}

/// Keeps an input, tells control of it, and gives it to the plan that it belongs to by then.
void OnlineEmulatedRanks::input(Time now, Input input) {
  if (given_up_) return;
  if (newest_ - oldest_ == inputs_.size()) {
    notify(now, {.kind = OnlineNotice::Kind::kOverfull, .link = input.link});
    return give_up(now);
  }
  const uint64_t place = newest_++;
  inputs_[place & (inputs_.size() - 1)] = input;
  if (input.kind != Input::Kind::kAcknowledgement) {
    look_for_next(now, place);
    const bool credit = input.kind == Input::Kind::kCredit;
    notify(now, {.kind = credit ? OnlineNotice::Kind::kCredit : OnlineNotice::Kind::kData,
                 .link = input.link,
                 .bytes = input.bytes});
    if (given_up_) return;
  }
  OnlineOperation* op = operation_of(input.link, input.message);
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
void OnlineEmulatedRanks::look_for_next(Time now, uint64_t from) {
  if (given_up_ || begun_ > known_ || (last() != nullptr && !last()->over)) return;
  for (uint64_t i = from; i < newest_; ++i) {
    const Input& in = inputs_[i & (inputs_.size() - 1)];
    if (in.kind == Input::Kind::kAcknowledgement || in.message < settled_[in.link]) continue;
    begun_ = known_ + 1;
    see_entry(known_, in.link, in.time - job_.links[in.link].latency);
    host_->wake_at(std::max(now, in.time + settings_.wait[in.link]), *this,
                   cookie(WakeKind::kWaited, static_cast<uint32_t>(known_)));
    notify(now, {.kind = OnlineNotice::Kind::kBegan,
                 .link = in.link,
                 .number = known_,
                 .entry = in.time - job_.links[in.link].latency});
    return;
  }
}

/// What tells first that a real rank has entered operation `number` has just come.
void OnlineEmulatedRanks::see_entry(uint64_t number, uint32_t link, Time entry) {
  if (shown_of_ == number) return;
  shown_of_ = number;
  progress_.entered.store(static_cast<uint32_t>(number + 1), std::memory_order_relaxed);
  const std::vector<uint64_t>& before = number < known_ ? at(number)->base : settled_;
  bool busy = false;
  for (uint32_t l = 0; l < links_.size() && !busy; ++l) {
    busy = hears(l) && job_.links[l].shares_nic(job_.links[link]) && links_[l].received < before[l];
  }
  const CollectiveShape* former = number > first_ ? at(number - 1)->shape.get() : nullptr;
  shown_ = entries_.shown(link, entry, former, busy);
}

/// Forgets inputs of operations that nothing will replace.
void OnlineEmulatedRanks::trim() {
  for (; oldest_ < newest_; ++oldest_) {
    const Input& in = inputs_[oldest_ & (inputs_.size() - 1)];
    const OnlineOperation* op = operation_of(in.link, in.message);
    if (op == nullptr ? in.message >= settled_[in.link] : !in.fed || (!op->sure && !op->finished)) {
      return;
    }
  }
}

/// Grants credits of a link up to `until`, at a time.
void OnlineEmulatedRanks::grant_ahead(Time now, uint32_t link, uint64_t until, Time at) {
  for (Link& l = links_[link]; l.granting < until; ++l.granting) {
    host_->wake_at(std::max(now, at), *this, connections_.grants(link));
  }
}

void OnlineEmulatedRanks::send_due(Time now, uint32_t link) {
  Link& l = links_[link];
  if (job_.links[link].real_sends || !connections_.joined(link)) return;
  NcclSender& sender = connections_.sender(link);
  while ((given_up_ || l.sent < l.due) && connections_.has_credit(link, l.sent)) {
    uint32_t bytes = capacity_of(sender, l.sent);
    OnlineOperation* op = operation_of(link, l.sent);
    if (op != nullptr) {
      bytes = std::min(bytes, wire(*op, link, l.sent - op->base[link]));
      if (waits_for_reflection(*op, link, bytes)) return;
    }
    if (!sender.send(now, *host_, l.sent, bytes, PayloadRef{}, l.sent)) return;
    if (given_up_ && op != nullptr && !op->sure) {
      sender.lengthen(now, *host_, l.sent, kMaxMessageBytes);  // nobody knows how long it is
    }
    if (op != nullptr) op->bytes_sent += bytes;
    entries_.sent(link);
    l.bytes_of[l.sent % kUnderWay] = bytes;
    ++l.sent;
  }
}

void OnlineEmulatedRanks::give_up(Time now) {
  if (given_up_) return;
  given_up_ = true;
  end_inner();
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (hears(l)) {
      grant_ahead(now, l, links_[l].received + ahead(l), now);
    } else if (says(l)) {
      lengthen(now, l, nullptr);
      send_due(now, l);
    }
  }
}

}  // namespace understudy
