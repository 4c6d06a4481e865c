// What every evaluator of a plan keeps for its caller (Plan in operation_plan.h): outputs that wait
// to be taken, and ranks that are done.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/assert.h"

namespace understudy {

/// Outputs in the order in which they became known. There are at most a window of each connection
/// untaken, so that a ring that is made once holds them.
template <typename Output>
class PlanOutputs {
 public:
  /// Makes room for so many.
  void resize(uint64_t most) { ring_.resize(std::max<uint64_t>(most, 1)); }
  void clear() { head_ = count_ = 0; }
  bool empty() const { return count_ == 0; }
  void push(const Output& output) {
    DEBUG_ASSERT_INVARIANT(count_ < ring_.size());
    size_t place = head_ + count_++;
    if (place >= ring_.size()) place -= ring_.size();
    ring_[place] = output;
  }
  const Output& front() const { return ring_[head_]; }
  void pop() {
    DEBUG_ASSERT_INVARIANT(count_ > 0);
    head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    --count_;
  }

 private:
  std::vector<Output> ring_;
  size_t head_ = 0, count_ = 0;
};

/// The emulated ranks whose completion is known, in the order in which that became known.
class DoneRanks {
 public:
  /// Makes room for so many.
  void reserve(size_t ranks) { done_.reserve(ranks); }
  /// Begins an operation that `ranks` emulated ranks have to do.
  void begin(size_t ranks) {
    done_.clear();
    taken_ = 0;
    unfinished_ = ranks;
  }
  void add(uint32_t rank) {
    DEBUG_ASSERT_INVARIANT(unfinished_ > 0);
    --unfinished_;
    done_.push_back(rank);
  }
  /// Takes the next one; false if there is none.
  bool next(uint32_t& rank) {
    if (taken_ == done_.size()) return false;
    rank = done_[taken_++];
    return true;
  }
  size_t unfinished() const { return unfinished_; }

 private:
  std::vector<uint32_t> done_;
  size_t taken_ = 0, unfinished_ = 0;
};

}  // namespace understudy
