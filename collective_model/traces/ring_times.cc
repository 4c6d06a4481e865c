#include "collective_model/traces/ring_times.h"

#include <algorithm>

namespace understudy {
namespace {

/// One chunk.
class Chunk {
 public:
  Chunk(const RingSteps& steps, std::span<const int64_t> way, std::vector<int64_t>& at,
        std::vector<int64_t>& free)
      : steps_(steps), way_(way), x_(at), free_(free), ranks_(at.size()), arrival_(at.size()) {}

  void run() {
    for (int64_t& x : x_) x += steps_.endpoint;
    for (uint64_t step = 0; step < steps_.steps; ++step) {
      if (way_.size() == 1 && keeps_pace()) {
        finish(step);
        return;
      }
      advance(step);
    }
  }

 private:
  int64_t reduce(uint64_t step) const { return step < steps_.reducing ? steps_.reduce : 0; }
  size_t before(size_t rank) const { return rank == 0 ? ranks_ - 1 : rank - 1; }

  void advance(uint64_t step) {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      int64_t leaves = x_[rank];
      if (!free_.empty()) {
        leaves = std::max(leaves, free_[rank]);
        free_[rank] = leaves + steps_.serialized;
      }
      arrival_[rank] = leaves + (way_.size() == 1 ? way_[0] : way_[rank]);
    }
    const int64_t after = reduce(step) + steps_.endpoint;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      x_[rank] = std::max(arrival_[before(rank)], x_[rank]) + after;
    }
  }

  /// Every rank waits for the one before it and finds its link free, now and from now on: the
  /// differences between neighbours go round the ring, and so the conditions hold again.
  bool keeps_pace() const {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      const int64_t arrives = x_[before(rank)] + way_[0];
      if (x_[rank] > arrives) return false;
      if (!free_.empty() &&
          (free_[rank] > x_[rank] || x_[rank] + steps_.serialized > arrives + steps_.endpoint)) {
        return false;
      }
    }
    return true;
  }

  /// All steps from `step` on, in which each rank waits for the one before.
  void finish(uint64_t step) {
    const auto after = [&](uint64_t steps) {
      const uint64_t end = step + steps;
      const uint64_t reducing = std::min(end, steps_.reducing) - std::min(step, steps_.reducing);
      return static_cast<int64_t>(steps) * (way_[0] + steps_.endpoint) +
             static_cast<int64_t>(reducing) * steps_.reduce;
    };
    const uint64_t left = steps_.steps - step;
    const auto turned = [&](size_t rank, uint64_t steps) {
      return x_[(rank + ranks_ - steps % ranks_) % ranks_] + after(steps);
    };
    if (!free_.empty()) {
      for (size_t rank = 0; rank < ranks_; ++rank) {
        free_[rank] = turned(rank, left - 1) + steps_.serialized;
      }
    }
    for (size_t rank = 0; rank < ranks_; ++rank) arrival_[rank] = turned(rank, left);
    x_.swap(arrival_);
  }

  const RingSteps& steps_;
  std::span<const int64_t> way_;
  std::vector<int64_t>& x_;  ///< when each rank hands over its next message
  std::vector<int64_t>& free_;
  size_t ranks_;
  std::vector<int64_t> arrival_;
};

}  // namespace

void ring_times(const RingSteps& steps, std::span<const int64_t> way, std::vector<int64_t>& at,
                std::vector<int64_t>& free) {
  Chunk chunk(steps, way, at, free);
  for (uint64_t i = 0; i < steps.chunks; ++i) chunk.run();
}

}  // namespace understudy
