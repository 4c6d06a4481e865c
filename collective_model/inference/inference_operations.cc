// Inference: operations from the parts of their channels, and what is said of those that are over.
#include <algorithm>
#include <tuple>
#include <utility>

#include "collective_model/inference/inference.h"
#include "collective_model/nccl/channel_cut.h"

namespace understudy {
namespace {

/// Sizes that are tried one by one.
constexpr uint64_t kMostTried = 4096;

constexpr uint32_t kElementSizes[] = {1, 2, 4, 8};

std::vector<uint32_t> common(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
  std::vector<uint32_t> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both;
}

}  // namespace

/// The first operation of a channel that was not taken, or one `ahead` of it; null if it has not
/// begun.
const Inference::LaneOperation* Inference::unreported(uint32_t channel, uint64_t ahead) const {
  const Channel& ch = channels_[channel];
  const uint64_t at = ch.reported - ch.first + ahead;
  return at < ch.operations.size() ? &ch.operations[at] : nullptr;
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
      operation.type = type_of_bytes(element);
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
    if (!own && following != nullptr && part->last_event > following->first_event) {
      // It may still be of this one: a message was overtaken, or one of several ranks is behind.
      shifted_ |= real_.size() > 1 || part->first_event <= following->first_event + 2;
      break;
    }
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
  found.border_open = found.candidates.empty() || shifted_;
  found.border_open |= robbed_ || found.channels < perhaps;
  for (uint32_t c = 0; c < found.channels; ++c) found.border_open |= unreported(c)->open;
  // Where it may have ended before, parts on other channels may be the next one's.
  robbed_ = false;
  for (uint32_t c = 1; c < found.channels; ++c) {
    robbed_ |= found.border_open && following != nullptr &&
               unreported(c)->last_event > following->first_event;
  }
  for (uint32_t c = 0; c < found.channels; ++c) ++channels_[c].reported;
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
