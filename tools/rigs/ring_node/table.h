// ring_node's output: the table of nccl-tests, or CSV.
#pragma once

#include <cstdint>
#include <string>

#include "tools/rigs/ring_node/base/outcome.h"

namespace understudy {

/// What the rows of one job have in common.
struct RowShape {
  std::string type = "float", reduction = "sum";
  std::string root = "-1";
  uint32_t element_bytes = 4;
  double bus_factor = 1;  ///< bus bandwidth / algorithm bandwidth
};
RowShape all_reduce_rows(uint32_t ranks);

/// Averages over the timed iterations, in nccl-tests' sense (GB/s is 1e9 bytes per second).
struct Bandwidth {
  double time_us = 0;
  double algorithm = 0;  ///< bytes / time
  double bus = 0;
};
Bandwidth bandwidth(const SizeOutcome& outcome, const RowShape& shape);

std::string table_head();
std::string table_row(const SizeOutcome& outcome, const RowShape& shape);

std::string csv_head();
/// All times are in the line, each in its own right: average, least, most.
std::string csv_row(const SizeOutcome& outcome, const RowShape& shape);

}  // namespace understudy
