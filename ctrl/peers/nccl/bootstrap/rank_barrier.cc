#include "ctrl/peers/nccl/bootstrap/rank_barrier.h"

#include <algorithm>
#include <bit>

namespace understudy {

RankBarrier::RankBarrier(const std::vector<NcclMember>& members)
    : rounds_(static_cast<uint32_t>(std::bit_width(members.size() - 1))),
      members_(members),
      begun_(members.size()) {}

bool RankBarrier::came(uint32_t from, uint32_t to, std::vector<Send>& sends) {
  const auto ranks = static_cast<uint32_t>(members_.size());
  const uint32_t distance = (to + ranks - from) % ranks;
  if (!std::has_single_bit(distance)) return false;
  const auto round = static_cast<uint32_t>(std::countr_zero(distance));
  const auto key = [&](uint32_t rank, uint64_t r) { return uint64_t{rank} << 8 | r; };
  barriers_ = std::max(barriers_, ++heard_[key(from, round)]);

  const auto may_go_on = [&](uint32_t rank) {
    const uint64_t begun = begun_[rank];
    if (begun == barriers_ * rounds_) return false;
    if (begun == 0) return true;
    // The round that it is in ends with a message of the rank before it; with the last round the
    // barrier.
    const uint64_t in = begun - 1;
    const uint32_t before = (rank + ranks - (1u << (in % rounds_))) % ranks;
    if (!members_[before].real) return begun_[before] >= begun;
    const auto heard = heard_.find(key(before, in % rounds_));
    return heard != heard_.end() && heard->second > in / rounds_;
  };
  for (bool any = true; any;) {
    any = false;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (members_[rank].real || !may_go_on(rank)) continue;
      const uint32_t peer = (rank + (1u << (begun_[rank] % rounds_))) % ranks;
      ++begun_[rank];
      if (members_[peer].real) sends.push_back({rank, peer});
      any = true;
    }
  }
  return true;
}

}  // namespace understudy
