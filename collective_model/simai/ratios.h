// Shares of the bandwidth that collectives reach by their size and number of nodes, as SimAI's tables
// have them (aliyun/SimAI f5efb5a, inputs/ratio, read by calbusbw.cc).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

/// One column each, in the tables' order. Numbers of nodes without a column take that of 16.
enum class RatioColumn : uint8_t { k1, k2, k4, k8, k16, k32, k64, k128, kManyGroups };
inline constexpr size_t kRatioColumns = 9;
RatioColumn ratio_column(uint64_t nodes);

struct RatioTable {
  struct Row {
    uint64_t bytes = 0;
    std::array<double, kRatioColumns> shares{};  ///< positive; 1 where the table is empty
  };
  std::vector<Row> rows;  ///< ascending, at least one

  /// Between two rows linear, and divided by the last row's, so that the largest size reaches 1. Below
  /// the first row that row's; 1 for no bytes. Error: above the last row, where SimAI ends.
  Result<float> share(uint64_t bytes, RatioColumn column) const;
};

struct RatioTables {
  RatioTable nic, nvlink, all_to_all;
};

}  // namespace understudy
