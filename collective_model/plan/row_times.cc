#include "collective_model/plan/row_times.h"

#include <algorithm>
#include <numeric>

namespace understudy {

RowTimes::RowTimes(uint32_t slots, size_t rows, size_t pieces, size_t parts)
    : slots_(slots), pieces_(pieces), parts_(parts), lines_(rows * slots), users_(rows) {
  reset();
}

void RowTimes::reset() {
  pieces_.reset();
  parts_.reset();
  for (NodeTimes& lines : lines_) lines.forget();
  free_.resize(users_.size());
  std::iota(free_.rbegin(), free_.rend(), 0u);
}

void RowTimes::create(Row& row, uint32_t node, uint32_t slot) {
  if (free_.empty()) {
    const auto old = static_cast<uint32_t>(users_.size());
    users_.resize(std::max<size_t>(2 * size_t{old}, 16));
    lines_.resize(users_.size() * slots_);
    free_.reserve(users_.size());
    for (auto i = static_cast<uint32_t>(users_.size()); i-- > old;) free_.push_back(i);
  }
  row = {};
  row.sheet = free_.back();
  free_.pop_back();
  users_[row.sheet] = 1;
  NodeTimes* const all = &lines(row.sheet, 0);  // they are empty
  for (uint32_t s = 0; s < slots_; ++s) all[s].skip_to(node + (s < slot ? 1 : 0));
}

void RowTimes::release(Row& row) {
  for (uint32_t i = 0; i < row.parts.count(); ++i) {
    const uint32_t sheet = parts_[row.parts.first() + i].sheet;
    if (sheet != row.sheet) drop(sheet);
  }
  row.parts.clear(parts_);
  drop(row.sheet);
}

void RowTimes::drop(uint32_t sheet) {
  if (--users_[sheet] > 0) return;
  NodeTimes* const all = &lines(sheet, 0);
  for (uint32_t s = 0; s < slots_; ++s) all[s].clear(pieces_, 0);
  free_.push_back(sheet);
}

void RowTimes::add(Row& row, const Part& part) {
  row.related |= part.rise != kNoRise;
  if (row.parts.count() == 0) row.parts.add(parts_, {0, row.sheet, {}, kNoRise});
  const Part& last = parts_[row.parts.last()];
  if (last.sheet == part.sheet && last.later == part.later && last.rise == part.rise) return;
  if (part.sheet != row.sheet) ++users_[part.sheet];
  row.parts.add(parts_, part);
}

}  // namespace understudy
