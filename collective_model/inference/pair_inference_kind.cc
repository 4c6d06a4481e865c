// PairInference: from the bytes of pairs of ranks to what all ranks do, and what is not known of them.
#include <algorithm>

#include "collective_model/inference/pair_inference.h"
#include "collective_model/nccl/chunking.h"
#include "collective_model/schedule/p2p.h"

namespace understudy {

/// Of what real ranks say to each other nothing is seen: each is taken to say to another one as much
/// as a third one says to an emulated rank at the same distance.
void PairInference::add_unseen(std::vector<RankPairs>& real) const {
  const uint32_t ranks = communicator_.ranks();
  const std::vector<RankPairs> seen = real;
  const auto at_distance = [&](uint32_t distance) -> std::optional<uint64_t> {
    for (const RankPairs& r : seen) {
      const auto sent = r.sends.find((r.rank + distance) % ranks);
      if (sent != r.sends.end()) return sent->second;
    }
    return std::nullopt;
  };
  for (RankPairs& from : real) {
    for (RankPairs& to : real) {
      if (communicator_.local(from.rank, to.rank)) continue;
      const auto bytes = at_distance((to.rank + ranks - from.rank) % ranks);
      if (!bytes) continue;
      from.sends[to.rank] = *bytes;
      to.receives[from.rank] = *bytes;
    }
  }
}

/// An operation in which the pairs have these bytes, those without say nothing; what real ranks
/// have for one another is not seen.
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
        if (communicator_.local(rank, far) || std::ranges::binary_search(real_, far)) continue;
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
  add_unseen(real);
  const auto found = pair_operation(communicator_, real);
  if (!found) return std::nullopt;
  return *found;
}

/// It shows where the first operation ends: what ranks send ends with less than a chunk, or credits
/// tell one operation from the next.
bool PairInference::border_shows() const {
  return std::ranges::all_of(ranks_, [&](const Rank& rank) {
    const Part& part = rank.parts.front();
    bool receives = false, sends_chunks = false;
    for (const uint32_t c : rank.connections) {
      const Use& u = part.uses[c];
      if (u.messages == 0) continue;
      if (connections_[c].to_real) {
        receives = true;
        // Eight are granted at first, and more once the first ones were used.
        if (u.messages >= Chunking::kBufferSteps && is_chunk(u.size)) return false;
      } else {
        sends_chunks |= u.last == u.size && is_chunk(u.size);
      }
    }
    return !sends_chunks || (receives && !part.still);
  });
}

/// Of pairs of which it cannot be said to the byte how much they have.
std::vector<PairInference::Found::Unknown> PairInference::unknown_sizes(
    const std::optional<Operation>& taken) const {
  std::vector<Found::Unknown> all;
  if (!taken) return all;
  std::vector<uint64_t> known;
  for (const Pair& pair : pairs_) {
    if (!seen(pair) || !exact(pair, true)) continue;
    if (const auto bytes = pair_bytes(communicator_, *taken, pair.from, pair.to)) {
      known.push_back(*bytes);
    }
  }
  for (const Pair& pair : pairs_) {
    if (!seen(pair) || exact(pair, true)) continue;
    const auto bytes = pair_bytes(communicator_, *taken, pair.from, pair.to);
    if (!bytes) continue;
    Found::Unknown one{*bytes, 0, 0, std::ranges::find(known, *bytes) != known.end()};
    uint64_t last = 0;
    for (const uint32_t c : pair.connections) {
      one.most += use(pair, c).bytes;
      last = std::max<uint64_t>(last, use(pair, c).size);
    }
    one.most = std::max(one.most, *bytes);
    one.least = std::min(one.most - std::min(last, one.most) + 1, *bytes);
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  }
  return all;
}

}  // namespace understudy
