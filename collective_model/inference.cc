#include "collective_model/inference.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "collective_model/channel_cut.h"

namespace understudy {
namespace {

/// Operations that are kept after their end: a rank may still have to send what they granted.
constexpr size_t kKept = 16;
constexpr size_t kHistory = 256;
/// Sizes that are tried one by one.
constexpr uint64_t kMostTried = 4096;

constexpr uint32_t kElementSizes[] = {1, 2, 4, 8};

DataType type_of(uint32_t bytes) {
  return bytes == 1   ? DataType::kInt8
         : bytes == 2 ? DataType::kFloat16
         : bytes == 4 ? DataType::kFloat32
                      : DataType::kFloat64;
}

std::vector<uint32_t> common(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

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
  for (State& state : states_) state.starts.emplace_back(0, 0);
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
  return !before.ended_surely && (before.over ? before.open : in_doubt(channel, operation - 1));
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
  state.starts.emplace_back(operation, state.total);
  if (state.starts.size() > 2 * kKept) state.starts.pop_front();
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
  std::vector<std::pair<uint32_t, uint64_t>> had;
  op.open = in_doubt(ch, operation);
  for (uint32_t k = 0; k < ch.kinds.size(); ++k) {
    if (op.sizes[k].empty()) continue;
    if (op.sizes[k].single()) had.emplace_back(k, op.sizes[k].least());
  }
  ch.history.push_back(std::move(had));
  if (ch.history.size() > kHistory) ch.history.pop_front();
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
      bool unused_credits = false;
      for (const uint32_t c : ch.connections) {
        unused_credits |= connections_[c].to_real && states_[c].operation == at &&
                          states_[c].total > states_[c].sent;
      }
      bool perhaps = false;  // something that sends and receives may have ended here
      for (uint32_t k = 0; k < ch.kinds.size() && !unused_credits; ++k) {
        if (ended[k].empty()) continue;
        const LaneKind& kind = ch.kinds[k];
        if (kind.credits_lead()) {
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
          // Then all was sent before this credit was granted; it may have overtaken one message.
          if (event.credit && !sent_nearly(kind, at, state.count)) ended[k] = {};
        }
        perhaps |= !ended[k].empty() && kind.both_ways() && state.count > 0;
      }
      for (uint32_t k = 0; k < ch.kinds.size() && !unused_credits; ++k) {
        if (on[k].empty()) continue;
        if (perhaps || !ended[k].empty()) op.doubts[k] = true;
      }
    }
    if (goes_on) {
      op.sizes = std::move(on);
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
    if (left(ch, at)) close(channel, at);
  }
}

Inference::Size Inference::next_size(uint32_t connection) const {
  const State& state = states_[connection];
  const Channel& ch = channels_[connections_[connection].channel];
  uint64_t number = state.operation, before = state.starts.front().second;
  for (const auto& [operation, first] : state.starts) {
    if (first > state.sent) break;
    number = operation;
    before = first;
  }
  Size size;
  if (number < ch.first || number - ch.first >= ch.operations.size()) return size;
  const LaneOperation& op = ch.operations[number - ch.first];
  const uint64_t k = state.sent - before;
  size.known = !lost_ && !in_doubt(ch, number);
  bool any = false;
  for (uint32_t i = 0; i < ch.kinds.size(); ++i) {
    const LaneKind& kind = ch.kinds[i];
    const LaneKind::Way* way = kind.way(connection);
    if (op.sizes[i].empty() || way == nullptr) continue;
    if (op.sizes[i].intersected(kind.with_message(*way, k)).empty()) continue;
    const auto wire = kind.wire(*way, k, op.sizes[i]);
    size.known &= wire && (!any || *wire == size.wire);
    any = true;
    if (wire) size.wire = *wire;
    if (!size.known) break;
  }
  if (!any) size.known = false;
  if (size.known) return size;

  // What followed the same operation before; else the last one that fits; else the largest.
  const auto from = [&](const std::vector<std::pair<uint32_t, uint64_t>>& had) {
    for (const auto& [i, bytes] : had) {
      const LaneKind::Way* way = ch.kinds[i].way(connection);
      if (way == nullptr || !op.sizes[i].contains(bytes)) continue;
      if (const auto wire = ch.kinds[i].wire(*way, k, bytes)) {
        size.wire = *wire;
        return true;
      }
    }
    return false;
  };
  if (const size_t past = ch.history.size(); past > 0) {
    for (size_t i = past - 1; i-- > 0;) {
      if (ch.history[i] == ch.history[past - 1] && from(ch.history[i + 1])) return size;
    }
    for (size_t i = past; i-- > 0;) {
      if (from(ch.history[i])) return size;
    }
  }
  size.wire = 0;
  for (uint32_t i = 0; i < ch.kinds.size(); ++i) {
    const LaneKind::Way* way = ch.kinds[i].way(connection);
    if (op.sizes[i].empty() || way == nullptr) continue;
    const uint64_t most =
        std::min(op.sizes[i].most(), (k / way->per_loop + 1) * ch.kinds[i].loop_bytes);
    size.wire = std::max(size.wire, ch.kinds[i].wire(*way, k, most).value_or(0));
  }
  return size;
}

/// Sizes of a whole operation whose channels' parts are of these.
SizeSet Inference::totals(std::span<const SizeSet> lanes, const Operation& operation) const {
  const CutRule rule = cut_rule(communicator_.version);
  if (rule == CutRule::kStrided) {
    SizeSet all = lanes[0];
    for (const SizeSet& lane : lanes) all = all.intersected(lane);
    return all;
  }
  uint64_t least = 0, most = 0;
  bool unbounded = false;
  for (const SizeSet& lane : lanes) {
    least += lane.least();
    unbounded |= lane.most() == SizeSet::kUnbounded;
    most += lane.most();
  }
  if (unbounded) return {least, SizeSet::kUnbounded};
  if (most - least >= kMostTried) return {least, most};
  SizeSet found;
  Operation o = operation;
  const uint32_t element = element_bytes(o.type);
  for (uint64_t bytes = round_up(least, element); bytes <= most; bytes += element) {
    o.count = bytes / element;
    for (uint32_t channels = static_cast<uint32_t>(lanes.size());
         channels <= communicator_.channels; ++channels) {
      o.channels = channels;
      const auto cuts = cut_group(communicator_, {&o, 1});
      if (!cuts || (*cuts)[0].parts.size() != lanes.size()) continue;
      bool fits = true;
      for (size_t i = 0; i < lanes.size() && fits; ++i) {
        fits = lanes[i].contains((*cuts)[0].parts[i].bytes);
      }
      if (!fits) continue;
      found.add(bytes, bytes);
      break;
    }
  }
  return found;
}

/// The first operation of a channel that was not taken, or one `ahead` of it; null if it has not
/// begun.
const Inference::LaneOperation* Inference::unreported(uint32_t channel, uint64_t ahead) const {
  const Channel& ch = channels_[channel];
  const uint64_t at = ch.reported - ch.first + ahead;
  return at < ch.operations.size() ? &ch.operations[at] : nullptr;
}

/// What the next operation may be if its parts are the next ones of the first `channels` channels.
std::vector<InferredOperation::Candidate> Inference::candidates(uint32_t channels) const {
  using Shape = std::tuple<Collective, Algorithm, Protocol, std::vector<uint32_t>>;
  std::vector<InferredOperation::Candidate> all;
  std::vector<Shape> shapes;
  const bool strided = cut_rule(communicator_.version) == CutRule::kStrided;
  for (uint32_t k = 0; k < channels_[0].kinds.size(); ++k) {
    const LaneKind& kind = channels_[0].kinds[k];
    if (unreported(0)->sizes[k].empty()) continue;
    const Shape shape{kind.collective, kind.algorithm, kind.protocol(), kind.roots};
    if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
  }
  for (const Shape& shape : shapes) {
    InferredOperation::Candidate candidate;
    std::tie(candidate.collective, candidate.algorithm, candidate.protocol, candidate.roots) =
        shape;
    for (const uint32_t element : kElementSizes) {
      std::vector<SizeSet> lanes;
      std::vector<uint32_t> roots = candidate.roots;
      for (uint32_t c = 0; c < channels; ++c) {
        SizeSet sizes;
        std::vector<uint32_t> lane_roots;
        for (uint32_t k = 0; k < channels_[c].kinds.size(); ++k) {
          const LaneKind& kind = channels_[c].kinds[k];
          const SizeSet& set = unreported(c)->sizes[k];
          if (set.empty() || (kind.elements & element) == 0) continue;
          if (kind.collective != candidate.collective || kind.algorithm != candidate.algorithm ||
              kind.protocol() != candidate.protocol) {
            continue;
          }
          if (strided && kind.channels != channels) continue;
          if (!kind.roots.empty() && common(kind.roots, roots).empty()) continue;
          lane_roots.insert(lane_roots.end(), kind.roots.begin(), kind.roots.end());
          for (const SizeSet::Interval& i : set.intervals()) sizes.add(i.least, i.most);
        }
        std::ranges::sort(lane_roots);
        if (!candidate.roots.empty()) roots = common(roots, lane_roots);
        lanes.push_back(std::move(sizes));
      }
      if (std::ranges::any_of(lanes, [](const SizeSet& s) { return s.empty(); })) continue;
      if (!candidate.roots.empty() && roots.empty()) continue;
      Operation operation;
      operation.collective = candidate.collective;
      operation.algorithm = candidate.algorithm;
      operation.protocol = candidate.protocol;
      operation.type = type_of(element);
      const SizeSet bytes = totals(lanes, operation);
      if (bytes.empty()) continue;
      candidate.elements |= element;
      for (const SizeSet::Interval& i : bytes.intervals()) {
        candidate.bytes.add(i.least, i.most);
      }
    }
    if (!candidate.bytes.empty()) all.push_back(std::move(candidate));
  }
  return all;
}

bool Inference::fits(const InferredOperation& said, const Operation& operation) {
  return std::ranges::any_of(said.candidates, [&](const InferredOperation::Candidate& c) {
    return c.collective == operation.collective && c.algorithm == operation.algorithm &&
           c.protocol == operation.protocol && (c.elements & element_bytes(operation.type)) != 0 &&
           c.bytes.contains(operation.bytes()) &&
           (c.roots.empty() || std::ranges::find(c.roots, operation.root) != c.roots.end());
  });
}

bool Inference::may_be(const Operation& operation) const {
  const auto cut = cut_group(communicator_, {&operation, 1});
  if (lost_ || !cut) return false;
  const auto parts = static_cast<uint32_t>((*cut)[0].parts.size());
  const bool strided = cut_rule(communicator_.version) == CutRule::kStrided;
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    const LaneOperation* part = unreported(c);
    if (part == nullptr) continue;  // it may begin later
    if (c >= parts) {
      // It may be of the next operation, once the first channel's part has ended.
      if (unreported(0) != nullptr && part->first_event < unreported(0)->last_event) return false;
      continue;
    }
    bool fits = false;
    for (uint32_t k = 0; k < channels_[c].kinds.size() && !fits; ++k) {
      const LaneKind& kind = channels_[c].kinds[k];
      fits = kind.collective == operation.collective && kind.algorithm == operation.algorithm &&
             kind.protocol() == operation.protocol &&
             (kind.elements & element_bytes(operation.type)) != 0 &&
             (!strided || kind.channels == parts) &&
             (kind.roots.empty() ||
              std::ranges::find(kind.roots, operation.root) != kind.roots.end()) &&
             part->sizes[k].contains((*cut)[0].parts[c].bytes);
    }
    if (!fits) return false;
  }
  return unreported(0) != nullptr;
}

std::optional<Inference::Taken> Inference::current(std::span<const Operation> before) const {
  uint32_t count = 0;
  while (count < channels_.size() && unreported(count) != nullptr) ++count;
  if (lost_ || count == 0) return std::nullopt;
  const auto alike = [](const Operation& a, const Operation& b) {
    return a.collective == b.collective && a.algorithm == b.algorithm && a.protocol == b.protocol &&
           a.bytes() == b.bytes() && a.root == b.root;
  };
  if (!before.empty()) {
    for (size_t i = before.size() - 1; i-- > 0;) {
      if (alike(before[i], before.back()) && may_be(before[i + 1])) {
        return Taken{before[i + 1], true, true};
      }
    }
    if (may_be(before.back())) return Taken{before.back(), true, true};
  }
  for (const InferredOperation::Candidate& candidate : candidates(count)) {
    Operation o;
    o.collective = candidate.collective;
    o.algorithm = candidate.algorithm;
    o.protocol = candidate.protocol;
    o.root = candidate.roots.empty() ? 0 : candidate.roots.front();
    o.type = (candidate.elements & 4) != 0
                 ? DataType::kFloat32
                 : type_of(candidate.elements & (~candidate.elements + 1));
    o.channels = count;
    const uint64_t element = element_bytes(o.type);
    std::vector<uint64_t> sizes;
    const bool bounded = candidate.bytes.most() != SizeSet::kUnbounded;
    if (bounded) {
      // People like round sizes.
      for (const SizeSet::Interval& i : candidate.bytes.intervals()) {
        for (uint64_t unit = uint64_t{1} << 44; unit >= element; unit /= 2) {
          const uint64_t size = i.most / unit * unit;
          if (size < i.least) continue;
          sizes.push_back(size);
          break;
        }
      }
      std::ranges::sort(sizes, [](uint64_t a, uint64_t b) {
        return std::pair(std::countr_zero(a), a) > std::pair(std::countr_zero(b), b);
      });
    } else {
      // Twice as long as what was seen, and whole loops.
      for (const LaneKind& kind : channels_[0].kinds) {
        if (kind.collective != o.collective || kind.algorithm != o.algorithm ||
            kind.protocol() != o.protocol) {
          continue;
        }
        const uint64_t each = std::max<uint64_t>(ceil_div(candidate.bytes.least(), count), 1);
        const uint64_t loops = 2 * ceil_div(each, kind.loop_bytes) + 1;
        sizes.push_back(loops * kind.loop_bytes *
                        (cut_rule(communicator_.version) == CutRule::kStrided ? 1 : count));
      }
    }
    for (const uint64_t size : sizes) {
      o.count = size / element;
      if (may_be(o)) return Taken{o, bounded, false};
    }
  }
  for (size_t i = before.size(); i-- > 0;) {
    if (may_be(before[i])) return Taken{before[i], true, false};
  }
  return std::nullopt;
}

bool Inference::next(InferredOperation& operation) {
  // Every operation has a part on the first channel.
  const LaneOperation* first = unreported(0);
  const LaneOperation* following = unreported(0, 1);
  if (first == nullptr || !first->over) return false;
  // Parts that began before it had ended are its own; others began after that, and had ended before
  // the next one began.
  uint32_t surely = 1, perhaps = 1;
  for (uint32_t c = 1; c < channels_.size(); ++c) {
    const LaneOperation* part = unreported(c);
    if (part == nullptr) break;
    const bool own = part->first_event < first->last_event;
    if (!own && following != nullptr && part->last_event > following->first_event) break;
    if (!part->over) return false;
    perhaps = c + 1;
    if (own) surely = c + 1;
  }
  // More channels may begin.
  if (perhaps < channels_.size() && following == nullptr && !finished_) return false;
  InferredOperation found;
  found.first_message = first->first_event;
  for (uint32_t count = perhaps; count >= surely; --count) {
    found.candidates = candidates(count);
    found.channels = count;
    if (!found.candidates.empty()) break;
  }
  // Nothing is cut over channels like this: more may come, or these were not one operation's.
  if (found.candidates.empty() && following == nullptr && !finished_) return false;
  found.border_open = found.candidates.empty();
  for (uint32_t c = 0; c < found.channels; ++c) {
    found.border_open |= unreported(c)->open;
    ++channels_[c].reported;
  }
  operation = std::move(found);
  return true;
}

void Inference::finish() {
  finished_ = true;
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    Channel& ch = channels_[c];
    for (uint64_t at = ch.first; at < ch.first + ch.operations.size(); ++at) {
      LaneOperation& op = ch.operations[at - ch.first];
      if (op.over) continue;
      std::vector<SizeSet> ended(ch.kinds.size());
      bool any = false;
      for (uint32_t k = 0; k < ch.kinds.size(); ++k) {
        SizeSet sizes = op.sizes[k];
        for (const LaneKind::Way& way : ch.kinds[k].ways) {
          const State& state = states_[way.connection];
          if (sizes.empty() || state.operation > at) continue;
          sizes = state.operation < at
                      ? SizeSet()
                      : sizes.intersected(ch.kinds[k].with_messages(way, state.count));
        }
        any |= !sizes.empty();
        ended[k] = std::move(sizes);
      }
      if (any) op.sizes = std::move(ended);
      close(c, at);
      op.open |= !any;
    }
  }
}

}  // namespace understudy
