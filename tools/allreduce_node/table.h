// allreduce_node's output: the table of nccl-tests, which `understudy calibrate` reads, and JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/allreduce_node/options.h"

namespace understudy {

/// Of one size, out of place or in place.
struct Measured {
  double time_us = 0;             ///< of one operation, averaged over local ranks and iterations
  std::optional<uint64_t> wrong;  ///< elements; nothing: not verified
};

struct SizeRow {
  Shape shape;
  std::optional<Measured> out_of_place, in_place;  ///< nothing: not run
};

std::string table_head();
std::string table_row(const NodeOptions& options, const SizeRow& row);

/// All that the table says, as a JSON document.
std::string json_text(const NodeOptions& options, const std::vector<SizeRow>& rows);

}  // namespace understudy
