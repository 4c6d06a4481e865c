// PairInference: from the bytes of pairs of ranks to what all ranks do.
#include <algorithm>

#include "collective_model/pair_inference.h"
#include "collective_model/pair_operation.h"
#include "collective_model/schedule_p2p.h"

namespace understudy {

/// An operation in which the pairs have these bytes, those without say nothing; what real ranks of
/// a node have for one another is not seen.
std::optional<Operation> PairInference::of_sizes(
    const std::vector<std::optional<uint64_t>>& sizes) const {
  const auto is = [&](const Operation& o) {
    size_t talk = 0;
    for (size_t p = 0; p < pairs_.size(); ++p) {
      if (pair_bytes(communicator_, o, pairs_[p].from, pairs_[p].to) != sizes[p]) return false;
      talk += sizes[p] ? 1 : 0;
    }
    for (const uint32_t rank : real_) {
      for (uint32_t far = 0; far < communicator_.ranks(); ++far) {
        if (communicator_.local(rank, far)) continue;
        talk -= pair_bytes(communicator_, o, rank, far) ? 1 : 0;
        talk -= pair_bytes(communicator_, o, far, rank) ? 1 : 0;
      }
    }
    return talk == 0;
  };
  Operation o;
  o.type = DataType::kInt8;
  for (const std::optional<uint64_t>& size : sizes) o.count = std::max(o.count, size.value_or(0));
  for (const Collective kind : {Collective::kAllToAll, Collective::kSendRecv}) {
    o.collective = kind;
    if (is(o)) return o;
  }
  for (const Collective kind : {Collective::kGather, Collective::kScatter}) {
    for (const Rank& rank : ranks_) {
      o.collective = kind;
      o.root = rank.rank;
      if (is(o)) return o;
    }
  }
  std::vector<RankPairs> real;
  for (const Rank& rank : ranks_) real.push_back({rank.rank, {}, {}});
  for (size_t p = 0; p < pairs_.size(); ++p) {
    if (!sizes[p]) continue;
    const Pair& pair = pairs_[p];
    if (pair.to_real) {
      real[pair.rank].receives[pair.from] = *sizes[p];
    } else {
      real[pair.rank].sends[pair.to] = *sizes[p];
    }
  }
  const auto found = pair_operation(communicator_, real);
  if (!found) return std::nullopt;
  return *found;
}

}  // namespace understudy
