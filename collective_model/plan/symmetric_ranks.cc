#include "collective_model/plan/symmetric_ranks.h"

#include <map>
#include <tuple>

namespace understudy {

SymmetricRanks::SymmetricRanks(const Communicator& communicator, const Operation& operation,
                               const OperationCut& cut)
    : ranks_(communicator.ranks()), first_(rank_schedule(communicator, operation, cut, 0)) {
  // What the first rank receives from a distance is what it sends, seen from there.
  std::map<std::tuple<uint32_t, uint32_t, bool>, uint32_t> known;
  const std::vector<Connection>& all = first_->connections();
  for (uint32_t c = 0; c < all.size(); ++c) {
    const bool sends = all[c].direction == Direction::kSend;
    distance_.push_back(sends ? all[c].to : all[c].from);
    known[{all[c].channel, distance_[c], sends}] = c;
  }
  for (uint32_t c = 0; c < all.size(); ++c) {
    const bool sends = all[c].direction == Direction::kSend;
    far_.push_back(known.at({all[c].channel, (ranks_ - distance_[c]) % ranks_, !sends}));
  }
}

std::vector<FarEnd> SymmetricRanks::far_ends(uint32_t rank) const {
  std::vector<FarEnd> ends;
  for (uint32_t c = 0; c < far_.size(); ++c) ends.push_back(far(rank, c));
  return ends;
}

}  // namespace understudy
