// From measured tables to a calibration: which rows are used, the fit, and how far the other rows
// are from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective_model/predict/fit.h"
#include "collective_model/tuner/graph_search.h"
#include "ctrl/predict/measured_table.h"

namespace understudy {

/// What a table was measured on.
struct MeasuredSetup {
  Collective collective = Collective::kAllReduce;
  std::optional<Algorithm> algorithm;
  std::optional<Protocol> protocol;
  DataType type = DataType::kFloat32;
  NcclVersion version;
  NcclSystem system;  ///< of which ring, tree and channels are searched unless given:
  std::optional<NcclGraph> ring, tree;
  std::optional<uint32_t> channels;
  NcclEnvironment environment;
  CommunicatorSize communicator;
  uint32_t nics = 1;
  NetworkCost network;
  double nic_rate = 0;  ///< bit/s of each NIC; 0: unlimited
};

struct JudgedRow {
  MeasuredRow measured;
  FitRow row;
  double error = 0;  ///< of the predicted time: 0.1 is 10 % too long
  bool used = false;
};

/// Absolute errors of some rows.
struct RowErrors {
  size_t rows = 0;
  double mean = 0, worst = 0;
  uint64_t worst_bytes = 0;
  double worst_above_4mib = 0;
};

/// Of the rows above a size, if only those up to there calibrate.
struct BeyondErrors {
  uint64_t from = 0;  ///< bytes, of the largest row that calibrates
  RowErrors model;
  RowErrors line;  ///< through the two largest rows that are used
};

struct JudgedTable {
  MeasuredTable table;
  MeasuredSetup setup;  ///< with its system complete
  std::vector<JudgedRow> rows;
  std::vector<std::string> beyond;  ///< measured rows that the model's own way cannot have taken

  RowErrors others;  ///< of the rows that were not used
  RowErrors used;
  /// Of those that were not used, by a line through the nearest used rows on both sides.
  RowErrors interpolated;
  /// Of all rows, by what the other tables alone give (tables that are fitted together).
  RowErrors from_others;
  /// Nothing where too few rows would calibrate.
  std::optional<BeyondErrors> beyond_sizes;
  /// The least size that NCCL would give to the node's switches, if they reduce.
  std::optional<uint64_t> nvls_from;
};

struct CalibrationRun {
  Calibration calibration;
  std::vector<JudgedTable> tables;
};

/// At most this many rows of each table are used.
inline constexpr size_t kCalibrationRows = 8;
/// Rows above this part of a table's largest size are those beyond its sizes.
inline constexpr uint64_t kBeyond = 16;

/// Fits all tables together, each with the rings that were given or that NCCL's search finds for its
/// number of GPUs. With `given` nothing is fitted and every row is judged.
CalibrationRun calibrate(std::vector<MeasuredTable> tables,
                         const std::vector<MeasuredSetup>& setups,
                         const std::optional<Calibration>& given);

/// [nccl] and [calibration], as a configuration takes them. Rings, trees and channels stand in it
/// only if they were given: those that are searched differ by the number of GPUs.
std::string calibration_toml(const CalibrationRun& run);
/// Errors of every table; with `all` of every row. Ends with how far to trust it.
std::string judgement_text(const CalibrationRun& run, bool all);

}  // namespace understudy
