#include "ctrl/jobs/nccl/search_plan.h"

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Which tree a channel has depends on it, and so who its neighbours are.
bool has_trees_of(const JobConfig& job, const CollectiveSetup& planned, uint32_t search_channels) {
  const bool told = job.operations == OperationsMode::kTold;
  if (told && planned.algorithm && *planned.algorithm != Algorithm::kTree) return true;
  Communicator found = planned.communicator;
  found.search_channels = search_channels;
  for (uint32_t channel = 0; channel < found.channels; ++channel) {
    if (found.tree_of(channel) != planned.communicator.tree_of(channel)) return false;
  }
  return true;
}

}  // namespace

Result<std::string> settle_plan(const Config& config, JobRunner& runner, size_t number,
                                uint32_t search_channels) {
  const JobConfig& job = config.jobs[number];
  std::string line;
  if (!has_trees_of(job, runner.setup(number), search_channels)) {
    if (auto planned = runner.plan_again(number, search_channels); !planned) {
      return fail("NCCL's search found " + std::to_string(search_channels) +
                  " channels, and the trees of the plan are others: " + planned.error().text);
    }
    line = "NCCL's search found " + std::to_string(search_channels) + " of the " +
           std::to_string(job.channels) + " channels: planned again with its trees";
  }
  TRY(runner.open_reference(number));
  if (job.operations != OperationsMode::kTold) runner.start_joined(number);
  return line;
}

}  // namespace understudy
