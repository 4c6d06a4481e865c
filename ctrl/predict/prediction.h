// What `understudy predict` says of a job: for each size the algorithm and protocol that NCCL would
// take, and the time by closed forms. No packets, and no operation is stepped through.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "collective_model/predict/time_model.h"
#include "collective_model/tuner/tuning.h"
#include "ctrl/config/config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/predict/job_network.h"
#include "ctrl/report/validity_line.h"
#include "ctrl/topology/topology.h"

namespace understudy {

struct PredictedRow {
  uint64_t bytes = 0, count = 0;            ///< as nccl-tests print them
  double time = 0;                          ///< us
  double algorithm_rate = 0, bus_rate = 0;  ///< GB/s
  double nic_rate = 0;  ///< bit/s on the wire of each NIC of the busiest node, headers included
  TuningTable tuning;
  std::vector<std::string> beyond;  ///< physical bounds that a figure would exceed, and why
};

/// Iterations of one kind, the mean of the timed ones.
struct PredictedIteration {
  uint64_t bytes = 0;  ///< of all its operations
  uint32_t operations = 1;
  double time = 0, compute = 0, exposed = 0;  ///< us, means of the ranks
  uint32_t exposed_operations = 0;            ///< of the rank that waits for the fewest
};

struct Prediction {
  const JobConfig* job = nullptr;
  CommunicatorSize communicator;
  NcclSystem system;
  bool by_dimensions = false;  ///< its network is a stack of dimensions, and no NCCL chooses
  JobNetwork network;          ///< of the first row's algorithm
  std::vector<PredictedRow> rows;
  std::vector<PredictedIteration> iterations;  ///< empty if ranks do nothing but collectives
  std::vector<std::string> notes;              ///< what the times are, where it is not plain
  std::vector<ValidityLine> validity;          ///< how far to trust them
};

/// Settings that contradict one another, with their lines: an algorithm that the collective or the
/// number of GPUs rules out, an environment that leaves no choice.
std::vector<ConfigError> check_choices(const Config& config);

/// Of every job, in order. `config` outlives the result.
tl::expected<std::vector<Prediction>, std::vector<ConfigError>> predict(const Config& config,
                                                                        const Topology* topology);

/// How far to trust the predictions of all jobs together, as their text and JSON end.
std::vector<ValidityLine> prediction_validity(const std::vector<Prediction>& predictions);

/// One operation as the time model takes it.
OperationShape operation_shape(const Tuner& tuner, const TuningTable& table, Collective collective,
                               uint64_t bytes, DataType type);

/// As in nccl-tests' output, a table for each job; `why` adds how NCCL chooses at each size.
std::string prediction_text(const Config& config, const std::vector<Prediction>& predictions,
                            bool why);
/// The same as JSON: ctrl/report/prediction.schema.json.
std::string prediction_json(const Config& config, const std::vector<Prediction>& predictions);

}  // namespace understudy
