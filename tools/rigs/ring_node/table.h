// ring_node's output: the table of nccl-tests, or CSV.
#pragma once

#include <cstdint>
#include <string>

#include "ctrl/peers/ring/ring_messages.h"
#include "tools/rigs/ring_node/session.h"

namespace understudy {

/// Averages over the timed iterations, in nccl-tests' sense (GB/s is 1e9 bytes per second).
struct Bandwidth {
  double time_us = 0;
  double algorithm = 0;  ///< bytes / time
  double bus = 0;        ///< algorithm * 2(n-1)/n
};
Bandwidth bandwidth(const SizeOutcome& outcome, uint32_t ranks);

std::string table_head();
std::string table_row(const SizeOutcome& outcome, uint32_t ranks);

std::string csv_head();
/// All times are in the line, each in its own right: average, least, most.
std::string csv_row(const SizeOutcome& outcome, uint32_t ranks);

}  // namespace understudy
