#include "collective_model/traces/trace_run.h"

#include <algorithm>
#include <cmath>

#include "dataplane/base/assert.h"

namespace understudy {

TraceRun::TraceRun(const TraceJob& job, const TraceOrders& orders, const TraceRunSettings& settings,
                   const TraceCommunicators& communicators, std::vector<Carried> carried)
    : job_(job),
      settings_(settings),
      communicators_(communicators),
      carried_(std::move(carried)),
      computing_(settings.rules, settings.system),
      transfers_(settings.memory),
      executor_(job, orders, settings.rules, settings.recorded),
      states_(communicators.all().size()),
      computed_(job.ranks.size()),
      all_(executor_.left()) {
  ASSERT_INVARIANT(carried_.size() == states_.size());
  for (uint32_t i = 0; i < states_.size(); ++i) {
    states_[i].next.resize(communicators.all()[i].ranks.size());
    numbers_[carried_[i].number] = i;
  }
  executor_.listen(*this);
}

void TraceRun::begin(Time now) { executor_.begin(now); }

void TraceRun::advance(Time now) {
  woken_ = Time::never();
  while (!events_.empty() && events_.top().at <= now) {
    const Event event = events_.top();
    events_.pop();
    executor_.ended(event.rank, event.index, event.at);
    if (!event.transfer) continue;
    if (const auto next = transfers_.ended(event.rank)) transfer(*next, event.at);
  }
  if (events_.empty() || !wake_ || woken_ <= events_.top().at) return;
  woken_ = events_.top().at;
  wake_(woken_);
}

void TraceRun::advance_all() {
  while (!events_.empty() && !error_) advance(events_.top().at);
}

void TraceRun::ends_at(const Event& event) {
  events_.push(event);
  if (!wake_ || event.at >= woken_) return;
  woken_ = event.at;
  wake_(woken_);
}

void TraceRun::stop(std::string error) {
  if (!error_) error_ = std::move(error);
  executor_.stop();
}

double TraceRun::share_done() const {
  if (executor_.left() == 0) return 1;
  return 1 - static_cast<double>(executor_.left()) / static_cast<double>(std::max<size_t>(all_, 1));
}

bool TraceRun::is_skipped(uint32_t rank, uint32_t index) {
  return computing_.is_skipped(executor_.node(rank, index));
}

void TraceRun::begins(uint32_t rank, uint32_t index, Time now) {
  const TraceNode& what = executor_.node(rank, index);
  if (computing_.is_computed(what)) return compute(rank, index, what, now);
  const bool streams = in_streams(settings_.rules);
  switch (what.kind) {
    case TraceNodeKind::kMemoryLoad:
    case TraceNodeKind::kMemoryStore: {
      const TraceTransfers::Transfer asked{rank, index, what.tensor_bytes};
      if (transfers_.begins(asked)) transfer(asked, now);
      return;
    }
    case TraceNodeKind::kSend:
      if (!streams) return send_at_once(rank, index, what, now);
      break;
    case TraceNodeKind::kReceive:
      if (!streams) return receive(rank, index, what, now);
      break;
    case TraceNodeKind::kCollective:
      break;
    case TraceNodeKind::kMetadata:
    case TraceNodeKind::kCompute:
      return ends_at({now, rank, index});
  }
  enter(rank, index, communicators_.place(rank, what), now);
}

void TraceRun::compute(uint32_t rank, uint32_t index, const TraceNode& what, Time now) {
  const auto takes = computing_.takes(what);
  if (!takes) {
    return stop(place_text(job_, rank, what) + ": a computation of " +
                std::to_string(what.operations) + " operations and " +
                std::to_string(what.tensor_bytes) + " bytes has no time by the roofline");
  }
  Duration took = Duration::ns(*takes);
  if (!what.on_cpu) {
    if (!settings_.slower.empty() && settings_.slower[rank] != 1) {
      took = Duration::ps(std::llround(static_cast<double>(took.ps()) * settings_.slower[rank]));
    }
    computed_[rank] += took;
  }
  ends_at({now + took, rank, index});
}

void TraceRun::transfer(const TraceTransfers::Transfer& what, Time now) {
  ends_at({now + Duration::ns(transfers_.takes(what)), what.rank, what.index, true});
}

TraceRun::Operation* TraceRun::join(const TraceCommunicators::Place& place, Time now) {
  State& state = states_[place.communicator];
  const Carried& carried = carried_[place.communicator];
  const uint64_t k = state.next[place.member]++;
  const uint64_t behind = state.before + state.operations.size();
  ASSERT_INVARIANT(k >= state.before && k <= behind);
  if (k == behind) {
    Operation made;
    made.number = carried.carrier->append(carried.number, place.shape);
    made.shape = place.shape;
    made.nodes.assign(state.next.size(), kNone);
    made.first = now;
    state.place[made.number] = k;
    state.operations.push_back(std::move(made));
  }
  Operation& operation = state.operations[k - state.before];
  if (operation.shape != place.shape) return nullptr;
  ++operation.entered;
  operation.last = now;
  return &operation;
}

void TraceRun::enter(uint32_t rank, uint32_t index, const TraceCommunicators::Place& place,
                     Time now) {
  const TraceCommunicator& communicator = communicators_.all()[place.communicator];
  const TraceShape& shape = communicator.shapes[place.shape];
  const bool nothing = communicator.ranks.size() == 1 || is_nothing(shape);
  if (nothing) return ends_at({now, rank, index});
  Operation* operation = join(place, now);
  if (operation == nullptr) {
    return stop(place_text(job_, rank, executor_.node(rank, index)) +
                ": other ranks begin another operation of " + communicator.name +
                " in its place: a communicator's ranks need one order");
  }
  operation->nodes[place.member] = index;
  const Carried& carried = carried_[place.communicator];
  carried.carrier->enter(carried.number, operation->number, place.member, now);
}

/// The receiver has room for the message, whether or not it has begun its receive.
void TraceRun::send_at_once(uint32_t rank, uint32_t index, const TraceNode& what, Time now) {
  const TraceCommunicators::Place place = communicators_.place(rank, what);
  State& state = states_[place.communicator];
  Operation& operation = *join(place, now);
  operation.nodes[0] = index;
  ++state.next[1];
  ++operation.entered;
  const Carried& carried = carried_[place.communicator];
  const uint32_t number = operation.number;
  carried.carrier->enter(carried.number, number, 1, now);
  carried.carrier->enter(carried.number, number, 0, now);
}

void TraceRun::arrived(uint32_t rank, const TraceNode& sent, Time at) {
  Meeting& meeting = meetings_[message_key(rank, sent)];
  if (meeting.receives.empty()) return meeting.arrived.push_back(at);
  ends_at({at, *sent.destination, meeting.receives.front()});
  meeting.receives.pop_front();
}

void TraceRun::receive(uint32_t rank, uint32_t index, const TraceNode& what, Time now) {
  Meeting& meeting = meetings_[message_key(rank, what)];
  if (meeting.arrived.empty()) return meeting.receives.push_back(index);
  ends_at({std::max(now, meeting.arrived.front()), rank, index});
  meeting.arrived.pop_front();
}

void TraceRun::done(uint32_t communicator, uint32_t operation, uint32_t member, Time at) {
  const uint32_t number = numbers_.at(communicator);
  State& state = states_[number];
  const TraceCommunicator& known = communicators_.all()[number];
  Operation& one = state.operations[state.place.at(operation) - state.before];
  const uint32_t rank = known.ranks[member];
  if (one.nodes[member] != kNone) {
    ends_at({at, rank, one.nodes[member]});
  } else {
    const uint32_t sender = known.ranks.front();
    arrived(sender, executor_.node(sender, one.nodes.front()), at);
  }
  one.end = std::max(one.end, at);
  if (++one.ended < known.ranks.size()) return;
  count(number, one);
  state.place.erase(operation);
  while (!state.operations.empty() && state.operations.front().ended == known.ranks.size()) {
    state.operations.pop_front();
    ++state.before;
  }
}

void TraceRun::count(uint32_t communicator, const Operation& operation) {
  if (tell_) tell_(communicator, operation.last, operation.end);
  const TraceShape& shape = communicators_.all()[communicator].shapes[operation.shape];
  TraceOperationTotals& totals = totals_[shape.collective];
  const Duration took = operation.end - operation.last;
  ++totals.count;
  totals.bytes += static_cast<double>(shape.bytes);
  totals.all += took;
  totals.longest = std::max(totals.longest, took);
  totals.waiting += operation.last - operation.first;
}

std::string TraceRun::why_unfinished() const {
  if (error_) return *error_;
  for (uint32_t i = 0; i < states_.size(); ++i) {
    const TraceCommunicator& communicator = communicators_.all()[i];
    for (const Operation& operation : states_[i].operations) {
      if (operation.entered == communicator.ranks.size()) continue;
      uint32_t has = 0, lacks = 0;
      for (uint32_t m = 0; m < communicator.ranks.size(); ++m) {
        (operation.nodes[m] == kNone ? lacks : has) = m;
      }
      const uint32_t rank = communicator.ranks[has];
      return place_text(job_, rank, executor_.node(rank, operation.nodes[has])) +
             ": never ends: it waits for rank " + std::to_string(communicator.ranks[lacks]) +
             " in " + communicator.name;
    }
  }
  for (uint32_t rank = 0; rank < executor_.ranks(); ++rank) {
    if (executor_.left(rank) == 0) continue;
    for (uint32_t index = 0; index < executor_.nodes(rank); ++index) {
      const TraceNode& what = executor_.node(rank, index);
      if (executor_.is_free(rank, index) && executor_.startable(rank)) {
        return place_text(job_, rank, what) +
               ": never begins: a node without work freed it, and nothing happens after that (by "
               "the third feeder's rules)";
      }
      if (what.kind != TraceNodeKind::kReceive || !executor_.has_begun(rank, index)) continue;
      const auto found = meetings_.find(message_key(rank, what));
      if (found == meetings_.end() || found->second.receives.empty()) continue;
      return place_text(job_, rank, what) + ": never ends: rank " + std::to_string(*what.source) +
             " never sends the message";
    }
    return "rank " + std::to_string(rank) + " does not finish";
  }
  return "";
}

}  // namespace understudy
