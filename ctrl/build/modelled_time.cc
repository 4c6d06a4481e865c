#include "ctrl/build/modelled_time.h"

#include <algorithm>

namespace understudy {

Duration ModelledTimes::next(Plan& ideal) {
  std::vector<Time> entries(free_.size());
  Time real = Time::never(), end;
  for (const uint32_t rank : job_.real) {
    entries[rank] = clocks_[rank].enter(job_.step(rank, operation_), free_[rank]);
    real = std::min(real, entries[rank]);
  }
  for (uint32_t rank = 0; rank < free_.size(); ++rank) {
    if (job_.is_real(rank)) continue;
    const EntryStep& step = job_.step(rank, operation_);
    entries[rank] = job_.scheduled ? clocks_[rank].enter(step, free_[rank])
                                   : std::max(free_[rank], real + step.delay);
  }
  ++operation_;
  const Duration later = entries[0] - entries_[0];
  bool same = last_ == &ideal;
  for (uint32_t rank = 0; rank < free_.size() && same; ++rank) {
    same = entries[rank] - entries_[rank] == later;
  }
  entries_ = entries;
  last_ = &ideal;
  if (same) {
    for (Time& free : free_) free = free + later;
    return took_;
  }
  ideal.begin();
  for (uint32_t rank = 0; rank < free_.size(); ++rank) ideal.enter(rank, entries[rank]);
  for (uint32_t rank = 0; rank < free_.size(); ++rank) free_[rank] = ideal.completion(rank);
  for (const uint32_t rank : job_.real) end = std::max(end, free_[rank]);
  took_ = end - real;
  return took_;
}

}  // namespace understudy
