#include "collective_model/partition/assignment.h"

#include <limits>

namespace understudy {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};
constexpr double kFar = std::numeric_limits<double>::infinity();

/// Columns 0 to size - 1; column `size` is where the path of a new row begins.
class Assigner {
 public:
  Assigner(uint32_t size, const std::function<double(uint32_t, uint32_t)>& cost)
      : size_(size),
        cost_(cost),
        of_row_(size, 0),
        of_column_(size + size_t{1}, 0),
        row_(size + size_t{1}, kNone) {}

  std::vector<uint32_t> run() {
    for (uint32_t row = 0; row < size_; ++row) add(row);
    std::vector<uint32_t> columns(size_);
    for (uint32_t column = 0; column < size_; ++column) columns[row_[column]] = column;
    return columns;
  }

 private:
  /// Gives the row a column by the shortest path of exchanges; all reduced costs stay at least 0.
  void add(uint32_t row) {
    std::vector<double> distance(size_, kFar);
    std::vector<uint32_t> before(size_, kNone);
    std::vector<bool> reached(size_ + size_t{1}, false);
    row_[size_] = row;
    uint32_t at = size_;
    while (row_[at] != kNone) {
      reached[at] = true;
      const uint32_t own = row_[at];
      double step = kFar;
      uint32_t next = kNone;
      for (uint32_t column = 0; column < size_; ++column) {
        if (reached[column]) continue;
        const double reduced = cost_(own, column) - of_row_[own] - of_column_[column];
        if (reduced < distance[column]) {
          distance[column] = reduced;
          before[column] = at;
        }
        if (distance[column] < step) {
          step = distance[column];
          next = column;
        }
      }
      for (uint32_t column = 0; column <= size_; ++column) {
        if (reached[column]) {
          of_row_[row_[column]] += step;
          of_column_[column] -= step;
        } else if (column < size_) {
          distance[column] -= step;
        }
      }
      at = next;
    }
    while (at != size_) {
      row_[at] = row_[before[at]];
      at = before[at];
    }
  }

  uint32_t size_;
  const std::function<double(uint32_t, uint32_t)>& cost_;
  std::vector<double> of_row_, of_column_;  ///< potentials
  std::vector<uint32_t> row_;               ///< by column
};

}  // namespace

std::vector<uint32_t> cheapest_assignment(uint32_t size,
                                          const std::function<double(uint32_t, uint32_t)>& cost) {
  return Assigner(size, cost).run();
}

}  // namespace understudy
