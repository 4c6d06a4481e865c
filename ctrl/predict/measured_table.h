// Reads measured times of collectives: nccl-tests' own output, or a table in CSV.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "collective_model/predict/fit.h"
#include "ctrl/config/read/load.h"

namespace understudy {

struct MeasuredTable {
  std::string path;
  std::vector<MeasuredRow> rows;  ///< ascending by size, each once
  size_t repeated = 0;            ///< sizes that were measured more than once: the median counts
  /// From nccl-tests' list of ranks; 0: not told.
  uint32_t ranks = 0, nodes = 0;
};

/// nccl-tests: the lines of its table, "size count type redop root time algbw busbw #wrong" and
/// four columns in place, and "# Rank" lines, which tell ranks and hosts; lines may begin with
/// mpirun's tag "[1,0]<stdout>:". CSV: a header that names
/// size_bytes and time_out_of_place_us or _ns (time_in_place_us or _ns), other columns aside.
/// Errors name the line.
tl::expected<MeasuredTable, ConfigError> read_measured(const std::string& path, bool in_place);
/// The same for a text.
tl::expected<MeasuredTable, ConfigError> parse_measured(const std::string& text,
                                                        const std::string& path, bool in_place);

}  // namespace understudy
