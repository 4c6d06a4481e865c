#include "collective_model/inference/inference.h"

#include <algorithm>
#include <utility>

namespace understudy {
namespace {

/// Operations that are kept after their end: a rank may still have to send what they granted.
constexpr size_t kKept = 16;

}  // namespace

Inference::Inference(Communicator communicator, std::vector<uint32_t> real)
    : communicator_(std::move(communicator)),
      real_(std::move(real)),
      connections_(border_connections(communicator_, real_)),
      states_(connections_.size()) {
  for (uint32_t c = 0; c < communicator_.channels; ++c) {
    channels_.push_back({lane_kinds(communicator_, real_, connections_, c)});
    for (uint32_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i].channel == c) channels_[c].connections.push_back(i);
    }
  }
}

void Inference::on_credit(uint32_t connection, uint32_t capacity) {
  take({connection, true, capacity});
}

void Inference::on_data(uint32_t connection, uint32_t wire) {
  take({connection, false, wire});
  states_[connection].before = wire;
}

void Inference::on_sent(uint32_t connection) { ++states_[connection].sent; }

/// What is left of a kind's sizes if the event is its next message.
SizeSet Inference::continued(const LaneKind& kind, const SizeSet& sizes, const Event& event) const {
  const LaneKind::Way* way = kind.way(event.connection);
  if (way == nullptr || sizes.empty()) return {};
  const State& state = states_[event.connection];
  const SizeSet longer = sizes.intersected(kind.with_message(*way, state.count));
  if (longer.empty()) return {};
  if (event.credit) return longer.intersected(kind.with_capacity(event.bytes));
  return longer.intersected(kind.with_wire(*way, state.count, event.bytes, state.before));
}

/// A kind's operation may have ended on all its connections.
bool Inference::complete(const LaneKind& kind, const SizeSet& sizes, uint64_t operation) const {
  SizeSet left = sizes;
  for (const LaneKind::Way& way : kind.ways) {
    const State& state = states_[way.connection];
    if (state.operation > operation) continue;
    if (state.operation < operation) return false;
    left = left.intersected(kind.with_messages(way, state.count));
  }
  return !left.empty();
}

/// Real ranks have sent `count` messages of an operation on each connection, or all but one.
bool Inference::sent_nearly(const LaneKind& kind, uint64_t operation, uint64_t count) const {
  return std::ranges::all_of(kind.ways, [&](const LaneKind::Way& way) {
    const State& state = states_[way.connection];
    return way.receives || state.operation > operation ||
           (state.operation == operation && state.count + 1 >= count);
  });
}

/// The real rank has granted the first credits of all that it receives in an operation, which it
/// does before it sends. Of several ranks one may be late.
bool Inference::credited(const LaneKind& kind, uint64_t operation) const {
  return real_.size() > 1 || std::ranges::all_of(kind.ways, [&](const LaneKind::Way& way) {
           const State& state = states_[way.connection];
           return !way.receives || state.operation > operation ||
                  (state.operation == operation && state.count > 0);
         });
}

/// All that may be has ended.
bool Inference::over(const Channel& channel, uint64_t operation) const {
  const LaneOperation& op = channel.operations[operation - channel.first];
  for (uint32_t k = 0; k < channel.kinds.size(); ++k) {
    if (op.sizes[k].empty()) continue;
    if (op.sizes[k].most() == SizeSet::kUnbounded) return false;
    for (const LaneKind::Way& way : channel.kinds[k].ways) {
      const State& state = states_[way.connection];
      if (state.operation > operation) continue;
      if (state.operation < operation) return false;
      const SizeSet ended = channel.kinds[k].with_messages(way, state.count);
      if (op.sizes[k].intersected(ended) != op.sizes[k]) return false;
    }
  }
  return true;
}

/// It, or one before it, may have ended earlier than was taken.
bool Inference::in_doubt(const Channel& channel, uint64_t operation) const {
  const uint64_t at = operation - channel.first;
  const LaneOperation& op = channel.operations[at];
  for (uint32_t k = 0; k < channel.kinds.size(); ++k) {
    if (!op.sizes[k].empty() && op.doubts[k]) return true;
  }
  if (at == 0) return false;
  const LaneOperation& before = channel.operations[at - 1];
  if (before.lent) return true;
  return !before.ended_surely && (before.over ? before.open : in_doubt(channel, operation - 1));
}

/// The real rank at an end of a connection.
uint32_t Inference::real_end(uint32_t connection) const {
  const BorderConnection& c = connections_[connection];
  return c.to_real ? c.to : c.from;
}

/// A real rank, or `rank` of them, has granted credits in an operation that were not used.
bool Inference::waits(const Channel& channel, uint64_t operation,
                      std::optional<uint32_t> rank) const {
  return std::ranges::any_of(channel.connections, [&](uint32_t c) {
    return connections_[c].to_real && states_[c].operation == operation &&
           states_[c].total > states_[c].sent && (!rank || real_end(c) == *rank);
  });
}

/// A message may be all that real ranks send in an operation in which they receive nothing.
bool Inference::is_all_of_another(const Channel& channel, const Event& event) const {
  return std::ranges::any_of(channel.kinds, [&](const LaneKind& kind) {
    const LaneKind::Way* way = kind.way(event.connection);
    return way != nullptr && !kind.both_ways() &&
           !kind.with_wire(*way, 0, event.bytes, 0)
                .intersected(kind.with_messages(*way, 1))
                .empty();
  });
}

/// Every connection that it may use is at a later one.
bool Inference::left(const Channel& channel, uint64_t operation) const {
  const LaneOperation& op = channel.operations[operation - channel.first];
  for (uint32_t k = 0; k < channel.kinds.size(); ++k) {
    if (op.sizes[k].empty()) continue;
    for (const LaneKind::Way& way : channel.kinds[k].ways) {
      if (states_[way.connection].operation <= operation) return false;
    }
  }
  return true;
}

void Inference::move_on(State& state, uint64_t operation) {
  state.operation = operation;
  state.count = 0;
}

void Inference::lose(const Event& event) {
  const BorderConnection& c = connections_[event.connection];
  lost_ = std::string(event.credit ? "a credit" : "a message") + " of " +
          std::to_string(event.bytes) + " bytes on channel " + std::to_string(c.channel) +
          " from rank " + std::to_string(c.from) + " to rank " + std::to_string(c.to) +
          ", number " + std::to_string(states_[event.connection].count) +
          " of its operation: no operation of the communicator explains it";
}

void Inference::begin(uint32_t channel) {
  Channel& ch = channels_[channel];
  LaneOperation op;
  for (const LaneKind& kind : ch.kinds) op.sizes.push_back(kind.sizes);
  op.doubts.resize(ch.kinds.size());
  op.first_event = observations_;
  ch.operations.push_back(std::move(op));
}

void Inference::close(uint32_t channel, uint64_t operation) {
  Channel& ch = channels_[channel];
  LaneOperation& op = ch.operations[operation - ch.first];
  if (op.over) return;
  op.over = true;
  for (const uint32_t c : ch.connections) {
    if (states_[c].operation == operation) move_on(states_[c], operation + 1);
  }
  op.open = in_doubt(ch, operation) || op.overtook;
  while (ch.operations.size() > kKept && ch.first < ch.reported) {
    ch.operations.pop_front();
    ++ch.first;
  }
}

void Inference::take(const Event& event) {
  if (lost_) return;
  State& state = states_[event.connection];
  const uint32_t channel = connections_[event.connection].channel;
  Channel& ch = channels_[channel];
  ++observations_;
  while (true) {
    uint64_t at = std::max(state.operation, ch.first);
    while (at - ch.first < ch.operations.size() && ch.operations[at - ch.first].over) {
      ++at;
    }
    if (at != state.operation) move_on(state, at);
    if (at - ch.first == ch.operations.size()) begin(channel);
    LaneOperation& op = ch.operations[at - ch.first];

    std::vector<SizeSet> on(ch.kinds.size()), ended(ch.kinds.size());
    bool may_go_on = false, may_have_ended = false, capacity_fits = !event.credit;
    for (uint32_t k = 0; k < ch.kinds.size(); ++k) {
      if (op.sizes[k].empty()) continue;
      const LaneKind& kind = ch.kinds[k];
      on[k] = continued(kind, op.sizes[k], event);
      if (!event.credit && !credited(kind, at)) on[k] = {};
      may_go_on |= !on[k].empty();
      if (op.events == 0) continue;
      const LaneKind::Way* way = kind.way(event.connection);
      ended[k] = way == nullptr ? op.sizes[k]
                                : op.sizes[k].intersected(kind.with_messages(*way, state.count));
      may_have_ended |= !ended[k].empty();
      if (event.credit) capacity_fits |= !kind.with_capacity(event.bytes).empty();
    }
    if (!may_go_on && !may_have_ended) return lose(event);

    bool goes_on = may_go_on;
    if (may_go_on && may_have_ended) {
      const bool unused_credits = waits(ch, at, std::nullopt);
      // A rank that waits is still in it. Another one may have gone on.
      const bool sure = waits(ch, at, real_end(event.connection));
      bool perhaps = false;  // something else may have ended here
      for (uint32_t k = 0; k < ch.kinds.size() && !sure; ++k) {
        if (ended[k].empty()) continue;
        const LaneKind& kind = ch.kinds[k];
        if (kind.credits_lead() && !unused_credits) {
          // Both slices of a chunk, one of them empty, come at once, and their credits behind them.
          bool pairs = false;
          for (const LaneKind::Way& way : kind.ways) {
            pairs |=
                !way.receives && kind.chunking.slices() == 2 && states_[way.connection].before == 0;
          }
          bool another = false;
          for (uint32_t j = 0; j < ch.kinds.size() && pairs; ++j) {
            another |= !on[j].empty() && !complete(ch.kinds[j], op.sizes[j], at);
          }
          goes_on &= another || !complete(kind, op.sizes[k], at);
          // Then all was sent before this credit was granted; it may have overtaken one message. Of
          // several real ranks the one that grants may be ahead of the one that sends.
          if (event.credit && real_.size() == 1 && !sent_nearly(kind, at, state.count)) {
            ended[k] = {};
          }
        }
        // What has only sent, or only received, until now may have been an operation that does.
        const bool one_way = kind.way(event.connection) == nullptr;
        perhaps |= !ended[k].empty() && (one_way || (kind.both_ways() && state.count > 0));
      }
      for (uint32_t k = 0; k < ch.kinds.size() && !sure; ++k) {
        if (on[k].empty() || (!perhaps && ended[k].empty())) continue;
        op.doubts[k] = true;
        op.lent |= !event.credit;
      }
    }
    if (goes_on) {
      op.sizes = std::move(on);
      if (!event.credit) {
        op.overtook = op.sent == 0 && op.events > 0 && is_all_of_another(ch, event);
        ++op.sent;
      } else if (real_.size() == 1) {
        op.lent = false;  // it is still in it
      }
      ++op.events;
      op.last_event = observations_;
      ++state.count;
      ++state.total;
      if (over(ch, at)) close(channel, at);
      return;
    }
    // It is of the next operation, whatever that is.
    op.ended_surely |= may_go_on || !capacity_fits;
    op.sizes = std::move(ended);
    move_on(state, at + 1);
    // Where nothing else is left of what it may be, real ranks may wait for what its end grants.
    if (left(ch, at) || over(ch, at)) close(channel, at);
  }
}

}  // namespace understudy
