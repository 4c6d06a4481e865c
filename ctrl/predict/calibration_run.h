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

struct JudgedTable {
  MeasuredTable table;
  MeasuredSetup setup;  ///< with its system complete
  std::vector<JudgedRow> rows;
  std::vector<std::string> beyond;  ///< measured rows that the model's own way cannot have taken

  double mean = 0, worst = 0;  ///< of rows that were not used, absolute
  uint64_t worst_bytes = 0;
  double worst_from_4mib = 0;
  size_t judged = 0;
};

struct CalibrationRun {
  Calibration calibration;
  std::vector<JudgedTable> tables;
};

/// At most this many rows of each table are used.
inline constexpr size_t kCalibrationRows = 8;

/// Fits all tables together. With `given` nothing is fitted and every row is judged. Where a
/// table's rings are neither given nor certain (Volta's GPUs inside a node, whose NVLinks differ by
/// machine and number of GPUs), there are as many as NVLinks that its largest row fills.
CalibrationRun calibrate(std::vector<MeasuredTable> tables,
                         const std::vector<MeasuredSetup>& setups,
                         const std::optional<Calibration>& given);

/// [nccl] (of the first table) and [calibration], as a configuration takes them.
std::string calibration_toml(const CalibrationRun& run);
/// Errors of every table; with `all` of every row. Ends with how far to trust it.
std::string judgement_text(const CalibrationRun& run, bool all);

}  // namespace understudy
