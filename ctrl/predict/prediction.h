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

/// How a time was found.
enum class PredictionSource : uint8_t {
  kClosedForm,  ///< where it holds
  kBeyond,      ///< the same beyond what it holds for, for want of anything better
  kFlow,        ///< message by message, as flows with max-min fair rates
  kDimensions,  ///< the closed form of a stack of dimensions
};

struct PredictedRow {
  uint64_t bytes = 0, count = 0;  ///< as nccl-tests print them
  double time = 0;                ///< us, mean of the ranks
  PredictionSource source = PredictionSource::kClosedForm;
  double closed_form = 0;           ///< us
  double without_window = 0;        ///< us, the closed form with credits that are always there
  std::vector<std::string> limits;  ///< why the closed form does not hold
  /// What such times were off by at most from those packet by packet, as a share or by kErrorTime
  /// (prediction_error.h). Nothing: it is not known, or something else runs beside the job.
  std::optional<double> error;
  uint32_t sharing = 1, colliding = 0;      ///< as JobNetwork
  double answers = 0;                       ///< answers_by_data()
  bool messages_meet = false;               ///< a rank has several connections between nodes
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

/// Most messages of an operation that are followed as flows: some seconds.
inline constexpr uint64_t kMostFlowMessages = 300'000;
/// And most ranks.
inline constexpr uint32_t kMostFlowRanks = 4'096;

/// Of every job, in order. `config` outlives the result. Without [calibration], where the closed
/// form does not hold, an operation of at most kMostFlowMessages of kMostFlowRanks is followed as flows.
tl::expected<std::vector<Prediction>, std::vector<ConfigError>> predict(const Config& config,
                                                                        const Topology* topology);

/// How far to trust the predictions of all jobs together, as their text and JSON end.
std::vector<ValidityLine> prediction_validity(const std::vector<Prediction>& predictions);

/// One operation as the time model takes it.
OperationShape operation_shape(const Tuner& tuner, const TuningTable& table, Collective collective,
                               uint64_t bytes, DataType type);

/// "# job "ring": all_reduce, 8 ranks ...": a line.
std::string heading_text(const Config& config, const Prediction& prediction);
/// "ring simple, 8 ch".
std::string way_text(const Prediction& prediction, const PredictedRow& row);
/// "flow", "closed_form" ...: as JSON has it.
const char* source_word(PredictionSource source);
/// As in nccl-tests' output, a table for each job; `why` adds how NCCL chooses at each size.
std::string prediction_text(const Config& config, const std::vector<Prediction>& predictions,
                            bool why);
/// The same as JSON: ctrl/report/prediction.schema.json.
std::string prediction_json(const Config& config, const std::vector<Prediction>& predictions);

}  // namespace understudy
