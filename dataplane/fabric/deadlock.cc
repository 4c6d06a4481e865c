#include "dataplane/fabric/deadlock.h"

#include <algorithm>

#include "dataplane/fabric/network.h"

namespace understudy {
namespace {

constexpr uint32_t kNothing = 0xffffffff;

}  // namespace

DeadlockSearch::DeadlockSearch(const Network& network)
    : stuck_(network.queues_.size()), moves_(stuck_.size()), next_(stuck_.size()) {
  cycle_.reserve(stuck_.size());
}

/// Takes all that are paused for stuck at first. False if nothing is.
bool DeadlockSearch::begin(const Network& network) {
  bool any = false;
  for (uint32_t i = 0; i < stuck_.size(); ++i) {
    const bool paused =
        (network.links_[i / network.classes_].paused >> i % network.classes_ & 1) != 0;
    stuck_[i] = paused && network.ingress_[i].pausing;
    any = any || stuck_[i] != 0;
  }
  return any;
}

/// Those with a packet behind them that can leave are not stuck. True if there were some.
bool DeadlockSearch::release_those_that_move(const Network& network) {
  const unsigned classes = network.classes_;
  std::fill(moves_.begin(), moves_.end(), 0);
  std::fill(next_.begin(), next_.end(), kNothing);
  for (uint32_t queue = 0; queue < stuck_.size(); ++queue) {
    for (PacketId id = network.queues_[queue].first; id != kNoPacketId;
         id = network.packets_[id].next) {
      const NetPacket& p = network.packets_[id];
      const uint32_t came_by = p.way.link * classes + queue % classes;
      if (stuck_[queue] == 0) moves_[came_by] = 1;
      next_[came_by] = queue;
    }
  }
  bool released = false;
  for (uint32_t i = 0; i < stuck_.size(); ++i) {
    if (stuck_[i] == 0 || (moves_[i] == 0 && next_[i] != kNothing)) continue;
    stuck_[i] = 0;
    released = true;
  }
  return released;
}

std::span<const LinkId> DeadlockSearch::find(const Network& network) {
  cycle_.clear();
  if (!begin(network)) return {};
  while (release_those_that_move(network)) {
  }
  const auto first = std::find(stuck_.begin(), stuck_.end(), 1);
  if (first == stuck_.end()) return {};
  // Every one waits for another stuck one: after as many steps as there are it goes round.
  auto at = static_cast<uint32_t>(first - stuck_.begin());
  for (size_t i = 0; i < stuck_.size(); ++i) at = next_[at];
  const uint32_t start = at;
  do {
    cycle_.push_back(at / network.classes_);
    at = next_[at];
  } while (at != start);
  return cycle_;
}

}  // namespace understudy
