#include "ctrl/session/inferred_environment.h"

#include <algorithm>

#include "collective_model/channel_cut.h"
#include "ctrl/build/job_hops.h"
#include "ctrl/build/job_schedule.h"
#include "ctrl/build/node_way.h"
#include "ctrl/report/text.h"

namespace understudy {
namespace {

/// Credits that stay granted beyond what an operation needs: those that every operation begins
/// with.
constexpr uint64_t kAhead = 4;
constexpr size_t kKept = 3;  ///< operations in flight

std::string text_of(const Operation& o) {
  std::string text = std::string(name_of(kCollectiveNames, o.collective)) + " " +
                     std::string(name_of(kAlgorithmNames, o.algorithm)) + " " +
                     std::string(name_of(kProtocolNames, o.protocol)) + " of " +
                     std::to_string(o.bytes()) + " B";
  if (o.collective == Collective::kBroadcast || o.collective == Collective::kReduce) {
    text += ", root " + std::to_string(o.root);
  }
  return text;
}

}  // namespace

InferredEnvironment::InferredEnvironment(const Config& config, const JobConfig& job,
                                         const Topology* topology, const CollectiveJob& told,
                                         CollectiveProgress& progress)
    : config_(config),
      job_(job),
      topology_(topology),
      told_(told),
      progress_(progress),
      communicator_(job_communicator(config, job)),
      inference_(communicator_, told.real),
      links_(told.links.size()) {
  const std::vector<BorderConnection>& all = inference_.connections();
  for (uint32_t l = 0; l < links_.size(); ++l) {
    ends_.emplace_back(*this, l);
    const CollectiveLink& link = told.links[l];
    const BorderConnection border{link.channel, link.real_sends ? link.real : link.emulated,
                                  link.real_sends ? link.emulated : link.real, !link.real_sends};
    const auto at = std::ranges::find(all, border);
    if (link.index == 0 && at != all.end()) {
      links_[l].connection = static_cast<uint32_t>(at - all.begin());
    }
  }
  flights_.emplace_back();
  flights_.back().base.resize(links_.size());
}

void InferredEnvironment::on_wake(Time now, uint64_t cookie) {
  const auto what = static_cast<uint32_t>(cookie);
  switch (static_cast<WakeKind>(cookie >> 32)) {
    case WakeKind::kStart:
      for (uint32_t l = 0; l < links_.size(); ++l) {
        if (told_.links[l].real_sends) grant_ahead(now, l, kAhead, now);
      }
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
    case WakeKind::kDecide:
      if (what != static_cast<uint32_t>(concluded_) || current().plan != nullptr) break;
      current().waited = true;
      reconsider(now);
      break;
  }
}

void InferredEnvironment::End::on_received(Time now, Qp&, const Received& message) {
  if (!all_.told_.links[link_].real_sends) {
    all_.on_credit(now, link_);
  } else if (message.has_imm) {
    all_.on_data(now, link_, message);
  }
}

void InferredEnvironment::End::on_completed(Time now, Qp&, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    all_.progress_.failed = true;
    return;
  }
  if (all_.told_.links[link_].real_sends) return;  // a credit of ours
  all_.input(now, {link_, true, id, now});
}

void InferredEnvironment::End::on_transmitted(Time, Time, Qp&, uint64_t id) {
  Link& l = all_.links_[link_];
  if (all_.told_.links[link_].real_sends || id < l.transmitted) return;  // or sent again
  l.transmitted = id + 1;
  if (l.connection != kNone) all_.inference_.on_sent(l.connection);
}

/// Something of an operation has come: its ranks are taken to enter now.
void InferredEnvironment::begin(Time now, uint32_t link, uint64_t message) {
  last_ = now;
  Flight& f = current();
  if (message < f.base[link]) return;
  if (f.plan != nullptr && message >= f.base[link] + f.uses[link].messages) {
    if (next_entry_ == Time::never()) {
      next_noticed_ = now;
      next_entry_ = now - told_.links[link].latency;
    }
  }
  if (f.began) return;
  f.began = true;
  f.noticed = now;
  f.entry = now - told_.links[link].latency;
  // The real ranks' own first messages are under way, if they need nothing of ours.
  const Duration wire = job_wire_time(link);
  host_->wake_at(now + told_.links[link].latency * 2 + wire * 2, *this,
                 cookie(WakeKind::kDecide, static_cast<uint32_t>(concluded_)));
}

/// What the largest message of every channel takes on a link.
Duration InferredEnvironment::job_wire_time(uint32_t link) const {
  const NodeConfig& node = config_.nodes[job_.ranks[told_.links[link].real / communicator_.gpus]];
  const uint64_t bytes = uint64_t{told_.links[link].slot_bytes} * communicator_.channels;
  return node.nics[communicator_.first_nic].link_rate.time_for(bytes + bytes / 16);
}

void InferredEnvironment::on_credit(Time now, uint32_t link) {
  Link& l = links_[link];
  while (l.sender.has_credit(l.credits)) {
    const uint64_t k = l.credits++;
    begin(now, link, k);
    if (l.connection == kNone) {
      give_up(now, "a credit on a connection that no collective uses");
    } else {
      inference_.on_credit(l.connection, static_cast<uint32_t>(l.sender.capacity(k)));
      reconsider(now);
    }
  }
  send_due(now, link);
}

void InferredEnvironment::on_data(Time now, uint32_t link, const Received& message) {
  Link& l = links_[link];
  if (l.received == l.receiver.granted()) {
    ++progress_.violations;
    return;
  }
  const uint64_t k = l.received++;
  begin(now, link, k);
  if (l.connection == kNone) {
    give_up(now, "a message on a connection that no collective uses");
  } else {
    inference_.on_data(l.connection, message.length);
    reconsider(now);
  }
  if (given_up_) grant_ahead(now, link, l.received + kAhead, now);
  if (concluded_ < progress_.results.size()) {
    CollectiveResult& result = progress_.results[concluded_];
    result.bytes_received += message.length;
    result.end = std::max(result.end, now);
  }
  input(now, {link, false, k, now});
}

/// Keeps an input and gives it to the plan that it belongs to.
void InferredEnvironment::input(Time now, const Input& input) {
  inputs_.push_back(input);
  for (size_t i = 0; i < flights_.size(); ++i) {
    if (flights_[i].plan != nullptr && feed(flights_[i], input)) {
      if (input.acknowledged) ++flights_[i].acknowledged;
      flights_[i].end = std::max(flights_[i].end, input.time);
      take(now, i);
      break;
    }
  }
  finish();
}

bool InferredEnvironment::feed(Flight& flight, const Input& input) {
  const Use& use = flight.uses[input.link];
  const uint64_t base = flight.base[input.link];
  if (input.message < base || input.message >= base + use.messages) return false;
  const uint64_t k = input.message - base;
  if (input.acknowledged) {
    flight.plan->on_acknowledged(use.rank, use.connection, k, input.time);
  } else {
    flight.plan->on_real_data(use.rank, use.connection, k, input.time);
  }
  return true;
}

/// What comes is taken for what explains it, and the plan of that drives the emulated ranks.
void InferredEnvironment::reconsider(Time now) {
  if (given_up_) return;
  for (InferredOperation said; inference_.next(said);) conclude(now, said);
  if (inference_.lost()) return give_up(now, *inference_.lost());
  Flight& f = current();
  if (!f.began) return;
  if (f.plan != nullptr && inference_.may_be(f.operation)) return;
  const auto taken = inference_.current(before_);
  if (!taken || (f.plan == nullptr && !decided(*taken))) return;
  make(f, taken->operation);
  replay(now, flights_.size() - 1);
}

/// Waiting for more would only cost time: the operation is expected, or the real ranks have sent on
/// every channel, or what they send depends on us.
bool InferredEnvironment::decided(const Inference::Taken& taken) const {
  const Flight& f = flights_.back();
  if (taken.expected || f.waited) return true;
  for (uint32_t c = 0; c < taken.operation.channels; ++c) {
    bool sent = false;
    for (uint32_t l = 0; l < links_.size(); ++l) {
      sent |= told_.links[l].channel == c && told_.links[l].real_sends &&
              links_[l].received > f.base[l];
    }
    if (!sent) return false;
  }
  return true;
}

void InferredEnvironment::make(Flight& f, const Operation& operation) {
  const auto cut = cut_group(communicator_, {&operation, 1});
  EnvironmentConfig plan;
  plan.ranks = rank_schedules(communicator_, operation, (*cut)[0]);
  plan.real = told_.real;
  plan.hops = job_hops(config_, job_, communicator_, operation, plan.ranks, topology_);
  plan.wire = wire_cost(config_, config_.nodes[job_.ranks.front()].nics[communicator_.first_nic]);
  plan.step_cost = job_.step_cost;
  plan.inside = node_way(config_);
  f.operation = operation;
  f.ranks = plan.ranks;
  f.uses.assign(links_.size(), {});
  f.links.assign(f.ranks.size(), {});
  for (uint32_t r = 0; r < f.ranks.size(); ++r) {
    const std::vector<Connection>& all = f.ranks[r]->connections();
    f.links[r].assign(all.size(), kNone);
    for (uint32_t c = 0; c < all.size(); ++c) {
      for (uint32_t l = 0; l < links_.size(); ++l) {
        const CollectiveLink& link = told_.links[l];
        if (link.channel != all[c].channel || link.index != all[c].index || !all[c].network ||
            (link.real_sends ? link.real : link.emulated) != all[c].from ||
            (link.real_sends ? link.emulated : link.real) != all[c].to) {
          continue;
        }
        f.links[r][c] = l;
        if (r == link.emulated) f.uses[l] = {r, c, all[c].messages};
      }
    }
  }
  auto made = make_plan(std::move(plan));
  f.plan = made ? std::move(*made) : nullptr;
}

/// Tells a new plan all that has come.
void InferredEnvironment::replay(Time now, size_t flight) {
  Flight& f = flights_[flight];
  if (f.plan == nullptr) return give_up(now, "no plan for " + text_of(f.operation));
  next_entry_ = Time::never();  // it may have been of this operation
  // What the plan before released and is not due yet is released anew.
  for (uint32_t l = 0; l < links_.size(); ++l) {
    Link& link = links_[l];
    if (told_.links[l].real_sends || link.released <= f.base[l]) continue;
    if (link.due < f.base[l]) continue;  // with the end of the operation before
    const uint64_t end = std::max(f.base[l] + f.uses[l].messages, link.sent);
    link.due = std::min(link.due, end);
    link.released = std::max(link.due, f.base[l]);
    link.plans = static_cast<uint16_t>(link.plans + 1);
  }
  f.plan->begin();
  f.entered.assign(communicator_.ranks(), false);
  f.done.assign(communicator_.ranks(), Time::never());
  f.acknowledged = 0;
  enter(flight);
  take(now, flight);  // credits, without which nothing can have come
  for (const Input& input : inputs_) {
    if (feed(f, input)) {
      if (input.acknowledged) ++f.acknowledged;
      take(now, flight);
    }
  }
  take(now, flight);
  for (uint32_t l = 0; l < links_.size(); ++l) send_due(now, l);
}

/// Lets the ranks enter that are free.
void InferredEnvironment::enter(size_t flight) {
  Flight& f = flights_[flight];
  if (!f.began || f.plan == nullptr) return;
  for (uint32_t r = 0; r < communicator_.ranks(); ++r) {
    if (told_.is_real(r) || f.entered[r]) continue;
    Time entry = f.entry;
    if (!job_.skew.empty()) entry = entry + job_.skew[communicator_.node_of(r)];
    if (flight > 0 && flights_[flight - 1].plan != nullptr) {
      const Time free = flights_[flight - 1].done[r];
      if (free == Time::never()) continue;
      entry = std::max(entry, free);
    }
    f.entered[r] = true;
    f.first_entry = std::min(f.first_entry, entry);
    f.plan->enter(r, entry);
  }
}

void InferredEnvironment::take(Time now, size_t flight) {
  Flight& f = flights_[flight];
  EnvironmentOutput out;
  while (f.plan->next(out)) {
    const uint32_t link = f.links[out.rank][out.connection];
    if (link == kNone) continue;
    Link& l = links_[link];
    const uint64_t k = f.base[link] + out.message;
    if (out.kind == EnvironmentOutput::Kind::kCredit) {
      grant_ahead(now, link, k + 1, out.time);
      continue;
    }
    if (k < l.released) continue;  // by the plan before
    l.released = k + 1;
    // A run that was told the operation could not have sent before the real rank's entry was known.
    const Time earliest = std::max(out.time, f.noticed);
    if (earliest < now) {
      ++f.late_messages;
      f.late = std::max(f.late, now - earliest);
    }
    host_->wake_at(std::max(now, out.time), *this,
                   cookie(WakeKind::kData, uint64_t{l.plans} << 16 | link));
  }
  uint32_t rank = 0;
  bool freed = false;
  while (f.plan->next_done(rank)) {
    f.done[rank] = f.plan->completion(rank);
    freed = true;
    for (uint32_t l = 0; l < links_.size(); ++l) {
      if (!told_.links[l].real_sends || told_.links[l].emulated != rank) continue;
      if (f.over) grant_ahead(now, l, f.base[l] + f.uses[l].messages + kAhead, f.done[rank]);
    }
  }
  if (freed && flight + 1 < flights_.size() && flights_[flight + 1].plan != nullptr) {
    enter(flight + 1);
    take(now, flight + 1);
  }
}

/// Grants credits of a link up to `until`, at a time.
void InferredEnvironment::grant_ahead(Time now, uint32_t link, uint64_t until, Time at) {
  for (Link& l = links_[link]; l.granting < until; ++l.granting) {
    host_->wake_at(std::max(now, at), *this, cookie(WakeKind::kCredit, link));
  }
}

/// An operation is over, and so is known as well as it ever will be.
void InferredEnvironment::conclude(Time now, const InferredOperation& said) {
  Flight& f = current();
  if (said.candidates.empty()) return give_up(now, "parts that no operation has");
  if (f.plan == nullptr || !Inference::fits(said, f.operation)) {
    const InferredOperation::Candidate& best = said.candidates.front();
    Operation o;
    o.collective = best.collective;
    o.algorithm = best.algorithm;
    o.protocol = best.protocol;
    o.type = (best.elements & 4) != 0 ? DataType::kFloat32 : DataType::kInt8;
    o.count = best.bytes.most() / element_bytes(o.type);
    o.root = best.roots.empty() ? 0 : best.roots.front();
    o.channels = said.channels;
    for (const Operation& before : before_) {
      if (Inference::fits(said, before)) o = before;
    }
    if (!check_operation(communicator_, o)) return give_up(now, "parts that no operation has");
    f.began = true;
    make(f, o);
    replay(now, flights_.size() - 1);
    if (given_up_) return;
  }
  f.over = true;
  InferredReport report;
  report.operation = text_of(f.operation);
  report.unique = said.unique();
  report.right = right(f, concluded_);
  report_.operations.push_back(std::move(report));
  f.number = concluded_++;
  before_.push_back(f.operation);
  Flight next;
  next.base = f.base;
  for (uint32_t l = 0; l < links_.size(); ++l) next.base[l] += f.uses[l].messages;
  if (next_entry_ != Time::never()) {
    next.began = true;
    next.entry = next_entry_;
    next.noticed = next_noticed_;
    next_entry_ = Time::never();
  }
  // Its ranks' first credits of the next one, if they are done already.
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const CollectiveLink& link = told_.links[l];
    if (link.real_sends && f.done[link.emulated] != Time::never()) {
      grant_ahead(now, l, next.base[l] + kAhead, f.done[link.emulated]);
    }
  }
  flights_.push_back(std::move(next));
  finish();
}

void InferredEnvironment::end() {
  inference_.finish();
  for (InferredOperation said; !given_up_ && inference_.next(said);) conclude(last_, said);
}

/// It has the messages of the reference node's operation.
bool InferredEnvironment::right(const Flight& f, size_t number) const {
  if (number >= told_.operations.size()) return false;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    const uint64_t messages = told_.messages(number, l);
    if (messages != f.uses[l].messages) return false;
    for (uint64_t k = 0; k < messages; ++k) {
      if (told_.message(number, l, k).wire !=
          f.ranks[f.uses[l].rank]->message(f.uses[l].connection, k).wire) {
        return false;
      }
    }
  }
  return true;
}

/// Counts operations that are wholly over.
void InferredEnvironment::finish() {
  for (Flight& f : flights_) {
    if (!f.over || f.finished) continue;
    uint64_t to_acknowledge = 0;
    for (uint32_t l = 0; l < links_.size(); ++l) {
      if (!told_.links[l].real_sends) to_acknowledge += f.uses[l].messages;
    }
    if (f.acknowledged < to_acknowledge || !f.plan->finished()) break;
    f.finished = true;
    uint64_t wrong = 0;
    for (uint32_t l = 0; l < links_.size(); ++l) {
      if (told_.links[l].real_sends) continue;
      for (uint64_t k = 0; k < f.uses[l].messages; ++k) {
        Link& link = links_[l];
        wrong += link.bytes[f.base[l] + k - link.first] != size_of(f, l, k) ? 1 : 0;
      }
    }
    InferredReport& report = report_.operations[f.number];
    report.late = f.late;
    report.late_messages = f.late_messages;
    report.wrong_sizes = wrong;
    if (f.number >= progress_.results.size()) continue;
    CollectiveResult& result = progress_.results[f.number];
    result.entry = f.first_entry;
    result.end = std::max(f.first_entry, f.end);
    result.lateness = f.late;
    result.size_mismatches = wrong;
    progress_.finished.store(static_cast<uint32_t>(f.number + 1), std::memory_order_release);
  }
  while (flights_.size() > kKept && flights_.front().finished) {
    const std::vector<uint64_t>& base = flights_[1].base;
    std::erase_if(inputs_, [&](const Input& i) { return i.message < base[i.link]; });
    for (uint32_t l = 0; l < links_.size(); ++l) {
      Link& link = links_[l];
      while (!told_.links[l].real_sends && link.first < base[l]) {
        link.bytes.pop_front();
        ++link.first;
      }
    }
    flights_.pop_front();
  }
}

uint32_t InferredEnvironment::size_of(const Flight& f, uint32_t link, uint64_t k) const {
  return f.ranks[f.uses[link].rank]->message(f.uses[link].connection, k).wire;
}

void InferredEnvironment::send_due(Time now, uint32_t link) {
  Link& l = links_[link];
  if (told_.links[link].real_sends) return;
  while ((given_up_ || l.sent < l.due) && l.sender.has_credit(l.sent)) {
    auto bytes = static_cast<uint32_t>(l.sender.capacity(l.sent));
    for (const Flight& f : flights_) {
      if (f.plan == nullptr || l.sent < f.base[link]) continue;
      if (l.sent >= f.base[link] + f.uses[link].messages) continue;
      bytes = std::min(bytes, size_of(f, link, l.sent - f.base[link]));
    }
    if (!l.sender.send(now, *host_, l.sent, bytes, PayloadRef{}, l.sent)) return;
    l.bytes.push_back(bytes);
    ++l.sent;
  }
}

void InferredEnvironment::give_up(Time now, const std::string& why) {
  if (given_up_) return;
  given_up_ = true;
  report_.lost = why;
  for (uint32_t l = 0; l < links_.size(); ++l) {
    if (told_.links[l].real_sends) {
      grant_ahead(now, l, links_[l].received + kAhead, now);
    } else {
      send_due(now, l);
    }
  }
}

}  // namespace understudy
