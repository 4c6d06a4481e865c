// How far to trust a result (design rule 9), from the configuration and what a run saw: one place
// for all commands.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective_model/tuner/tuning.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "ctrl/topology/topology.h"
#include "ctrl/validity/validity_lines.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

/// Adds a line if messages of the job take no time in some NIC of its emulated nodes.
void add_nic_costs(ValidityLines& lines, const Config& config, const JobConfig& job,
                   const std::string& name = {});
/// Of what knows no packets: adds a line if acknowledgements queue behind data in some NIC.
void add_acks_first(ValidityLines& lines, const Config& config);

/// Of a run, whose report has its ports and traffic. `flows`: all that its network carried.
std::vector<ValidityLine> run_validity(const Scenario& scenario, const RunReport& report,
                                       std::span<const FlowSpec> flows);

/// What `predict` knows of a job.
struct PredictedJob {
  const JobConfig& job;
  CommunicatorSize communicator;
  GpuGeneration gpu = GpuGeneration::kAmpere;
  bool switches = true;    ///< false: there is no [topology]
  bool unlimited = false;  ///< its NICs' links
  bool counted = true;     ///< false: links between switches were not
  double share = 1;        ///< of its NICs' rate that a step's transfers get
  bool drawn = false;      ///< other seeds give its transfers other paths, and times
  bool as_flows = false;   ///< all its times were found as flows, not by the closed form
  bool inside = false;     ///< links inside nodes are in them
  /// Of a size, by which switches reduce; those of the network rather than NVSwitches.
  std::optional<Algorithm> in_switches = {};
  /// Sizes for which the closed form was taken beyond what it holds for.
  std::vector<uint64_t> beyond = {};
};
/// What runs at the same time as one of the configuration's jobs: "[[traffic]] runs", "[[event]] acts"; empty: nothing
/// does, but jobs that wait for it, or that it waits for.
std::string runs_beside(const Config& config, const JobConfig& job);
/// Of one job's prediction.
std::vector<ValidityLine> predicted_validity(const Config& config, const PredictedJob& predicted);
/// Of several together; `named`: the lines of each, and its name.
struct NamedValidity {
  std::string job;
  std::vector<ValidityLine> lines;
};
std::vector<ValidityLine> joined_validity(const std::vector<NamedValidity>& named);

/// Of what a [model] computes, and whether it fits into a GPU.
void add_training(ValidityLines& lines, const Config& config);
/// Of its iterations with [operations].
std::vector<ValidityLine> given_training_validity(const Config& config);
/// Of its iterations as rates.
void add_training_rates(ValidityLines& lines, const Config& config);
/// Of its iterations by closed forms. `drawn`: its paths are chosen by hash.
std::vector<ValidityLine> predicted_training_validity(const Config& config, bool drawn);
/// The same of execution traces. `contended`: as TracePrediction.
std::vector<ValidityLine> predicted_trace_validity(const Config& config, bool drawn,
                                                   double contended);
/// That computing is as recorded, if there is a [workload].
void add_traces(ValidityLines& lines, const Config& config);

/// Of a calibration, with the files of those tables of which no row is left to judge it by.
/// `in_switches`: the same of those that NCCL may have reduced by NVLS, and from which size on.
std::vector<ValidityLine> judgement_validity(
    const std::vector<std::string>& unjudged,
    const std::vector<std::pair<std::string, uint64_t>>& in_switches);

// Parts of these:

/// What is left out of any job with such nodes: NVLS, PXN.
void add_nccl_limits(ValidityLines& lines, const Config& config, const JobConfig& job);
/// Where the file says other things than a machine type.
void add_machines(ValidityLines& lines, const Config& config);
/// Where a [calibration] comes from, and how far a job of such size goes beyond it.
void add_calibration(ValidityLines& lines, const Config& config, const PredictedJob& predicted);

}  // namespace understudy
