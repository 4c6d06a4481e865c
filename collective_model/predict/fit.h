// Fits a calibration's constants to measured times.
//
// Few rows, many constants: each constant has a value that it keeps unless the rows say otherwise,
// from NCCL's published latencies and the graphs' bandwidths, and departing from it by a factor of
// e^2 costs as much as one row that is off by kRowSpread. Rows far off count linearly, not by their
// square: single outliers do not bend the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective_model/predict/calibration.h"
#include "collective_model/predict/time_model.h"

namespace understudy {

struct MeasuredRow {
  uint64_t bytes = 0;
  double time = 0;  ///< us
  unsigned line = 0;
};

/// One measured operation as the model sees it.
struct FitRow {
  OperationShape shape;
  NetworkCost network;
  double time = 0;  ///< us
};

/// The rule that says which rows of a table are used, and nothing else of them. Sizes at which NCCL
/// chooses the same algorithm and protocol form a stretch. `count` rows are dealt to the stretches:
/// one to each, a second one to each that has it (longest first), the rest one by one to the
/// stretch that is longest for the steps it has, log(last / first) / (rows - 1). In a stretch they
/// are those nearest by ratio (of two the smaller) to first * (last / first)^(k / (rows - 1)).
/// `rows` ascend by size; gives positions, ascending.
std::vector<size_t> calibration_rows(const std::vector<FitRow>& rows, size_t count);

/// Rows of one call are fitted together. The result depends on the arguments alone.
struct Fit {
  Calibration calibration;
  double loss = 0;  ///< what was made least: comparable between fits of the same rows
};
Fit fit_calibration(const std::vector<FitRow>& rows, const NcclSystem& system, NcclVersion version);

/// What rows that NCCL treats alike, ascending by size, say of their number of GPUs alone, given the
/// constants that all share: measured times by predicted ones, by least squares of relative errors
/// that count by their sizes. Nothing without two sizes, and between nodes, where the network's rates
/// are known.
std::optional<OwnCost> fit_own(const std::vector<FitRow>& rows, const Calibration& calibration);

/// Of a row's predicted time from its measured one: 0.1 is 10 % too long.
double error_of(const FitRow& row, const Calibration& calibration);

}  // namespace understudy
