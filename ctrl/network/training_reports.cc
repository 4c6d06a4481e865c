#include "ctrl/network/training_reports.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "collective_model/training/critical_path.h"
#include "collective_model/training/iteration_result.h"

namespace understudy {

TrainingReport training_report(const Config& config, const TrainingJob& job) {
  const TrainingConfig& training = *config.training;
  const Parallel& parallel = training.parallel;
  TrainingReport report;
  report.source = job.packets != nullptr ? "packet" : job.rates != nullptr ? "flow" : "closed form";
  report.gpus = parallel.gpus();
  report.nodes = job.plan.places.node(parallel.pp - 1, parallel.replicas() - 1) + uint64_t{1};
  report.tp = parallel.tp;
  report.pp = parallel.pp;
  report.dp = parallel.dp;
  report.ep = parallel.ep;
  report.cp = parallel.cp;
  report.micro_batches = parallel.micro_batches();
  report.flops = iteration_flops(training.model, parallel.recompute, parallel.global_batch);
  report.peak_flops = training.gpu->flops * static_cast<double>(report.gpus);
  report.tokens = parallel.global_batch * training.model.sequence;
  report.connections = job.connections;
  report.critical = critical_path(job.plan.graph, *job.workload);
  for (const CriticalStretch& stretch : report.critical) {
    const NodeId node = job.plan.places.node(stretch.stage, stretch.replica);
    report.critical_nodes.push_back(config.nodes.empty() ? "" : config.nodes[node].name);
  }
  report.iterations = iteration_results(job.plan.graph, *job.workload);
  return report;
}

void add_training_timeline(std::vector<TimelineTrack>& tracks, const Config& config,
                           const TrainingJob& job) {
  const Parallel& parallel = config.training->parallel;
  for (uint32_t stage = 0; stage < parallel.pp; ++stage) {
    for (uint32_t replica = 0; replica < parallel.replicas(); ++replica) {
      const NodeConfig& node = config.nodes[job.plan.places.node(stage, replica)];
      const std::string group = "stage " + std::to_string(stage) + ", replica " +
                                std::to_string(replica) + " (" + node.name + ")";
      TimelineTrack computes{group, "computes", {}};
      for (const TrainingSlice& slice :
           computed_slices(job.plan.graph, *job.workload, stage, replica)) {
        append(computes, slice.from, slice.to, std::string(slice.what),
               {{"micro_batch", slice.micro_batch},
                {"chunk", slice.chunk},
                {"iteration", slice.iteration}});
      }
      tracks.push_back(std::move(computes));
      std::map<std::string_view, TimelineTrack> operations;
      for (const TrainingSlice& slice :
           operation_slices(job.plan.graph, *job.workload, stage, replica)) {
        TimelineTrack& track = operations[slice.what];
        // One that is entered while the one before goes on stands behind it.
        const Time before =
            track.slices.empty() ? Time() : track.slices.back().from + track.slices.back().length;
        append(track, std::max(slice.from, before), slice.to, std::string(slice.what),
               {{"iteration", slice.iteration}});
      }
      for (auto& [what, track] : operations) {
        track.group = group;
        track.name = what;
        tracks.push_back(std::move(track));
      }
    }
  }
}

}  // namespace understudy
