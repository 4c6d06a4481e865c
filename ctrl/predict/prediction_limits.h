// Where closed forms do not hold, by rules that are known before anything is run. They were found by
// `tools/experiments/compare_table`.
#pragma once

#include <string>
#include <vector>

#include "collective_model/predict/time_model.h"
#include "ctrl/config/config.h"
#include "ctrl/predict/job_network.h"
#include "ctrl/predict/prediction.h"

namespace understudy {

/// Credits hold the operation up. Needs the row's closed forms.
bool held_up(const PredictedRow& row);

/// A connection is held up by credits where it has its NIC to itself. Whether several of one NIC are
/// then depends on who sends meanwhile.
bool held_up_alone(const OperationShape& shape, const ChunkPlan& cut,
                   const Calibration& calibration, NetworkCost cost, uint32_t sharing);

/// Time that the job's NICs take for acknowledgements of messages of so many bytes, by that for
/// their data, at most. 0: they take no longer for a packet than its link.
double answers_by_data(const Config& config, const JobConfig& job, uint64_t message);

/// Why the closed form does not hold, a sentence each.
std::vector<std::string> limits_of(const Config& config, const OperationShape& shape,
                                   const ChunkPlan& cut, const JobNetwork& network,
                                   const PredictedRow& row);

}  // namespace understudy
