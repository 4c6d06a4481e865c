// Inference: what an operation under way is taken for.
#include <algorithm>
#include <bit>
#include <utility>

#include "collective_model/inference/inference.h"
#include "collective_model/nccl/channel_cut.h"

namespace understudy {

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

/// Wholes of which some channel's part is known while another's is not, as where the real rank
/// first has to hear something there. All parts but the last are equal, and that is at most a cell
/// of each channel shorter (docs/nccl 3.9). The likeliest first: equal parts; but the longest where
/// a message that is too short keeps its kernel waiting.
std::vector<uint64_t> Inference::from_known_parts(const InferredOperation::Candidate& candidate,
                                                  uint32_t channels) const {
  constexpr uint64_t kCell = 16384, kGrain = 16;
  std::vector<uint64_t> wholes;
  if (cut_rule(communicator_.version) == CutRule::kStrided) return wholes;
  for (uint32_t c = 0; c < channels && wholes.empty(); ++c) {
    for (uint32_t k = 0; k < channels_[c].kinds.size(); ++k) {
      const LaneKind& kind = channels_[c].kinds[k];
      const SizeSet& part = unreported(c)->sizes[k];
      if (part.empty() || part.most() == SizeSet::kUnbounded) continue;
      if (kind.collective != candidate.collective || kind.algorithm != candidate.algorithm ||
          kind.protocol() != candidate.protocol) {
        continue;
      }
      const bool last = c + 1 == channels;
      for (uint64_t more = 0; more <= (last ? channels * kCell : 0); more += kGrain) {
        wholes.push_back(part.most() + (part.most() + more) * (channels - 1));
      }
      break;
    }
  }
  if (candidate.protocol != Protocol::kSimple) std::ranges::reverse(wholes);
  return wholes;
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
                 : type_of_bytes(candidate.elements & (~candidate.elements + 1));
    o.channels = count;
    const uint64_t element = element_bytes(o.type);
    std::vector<uint64_t> sizes;
    const bool bounded = candidate.bytes.most() != SizeSet::kUnbounded;
    if (bounded) {
      // People like round sizes.
      for (const SizeSet::Interval& i : candidate.bytes.intervals()) {
        for (uint64_t unit = kMostOperationBytes; unit >= element; unit /= 2) {
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
      sizes = from_known_parts(candidate, count);
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

}  // namespace understudy
