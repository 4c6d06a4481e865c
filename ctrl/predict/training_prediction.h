// What `understudy predict` says of a training job: its graph, where every operation takes the time of a
// closed form. Operations of one stage's rings share the network with each other, and messages between two
// stages with each other; what one kind takes from another, and events, are left out.
#pragma once

#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/validity_line.h"
#include "ctrl/report/workload/training_report.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"

namespace understudy {

/// `config` has a [model]. `topology`: of its nodes, one switch where it has none. Errors: as
/// plan_training().
Result<TrainingReport> predict_training(const Config& config, const Topology& topology);

/// `config` has a [model] and [operations]: no nodes. Errors: as plan_without_nodes().
Result<TrainingReport> predict_given_operations(const Config& config);

/// How far to trust it.
std::vector<ValidityLine> training_validity(const Config& config, const Topology& topology);
std::vector<ValidityLine> given_operations_validity(const Config& config);

std::string training_prediction_json(const Config& config, const TrainingReport& prediction,
                                     const std::vector<ValidityLine>& validity);

}  // namespace understudy
