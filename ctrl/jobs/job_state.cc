#include "ctrl/jobs/job_state.h"

#include "ctrl/compile/modelled_time.h"
#include "ctrl/jobs/packet_model.h"
#include "ctrl/jobs/plan_estimate.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// All that the operations need.
Result<void> make_plans(const CollectiveSetup& setup, const std::vector<PlanInput>& inputs,
                        CollectiveState& state) {
  state.plans.resize(setup.shapes.size() * setup.job.in_flight);
  for (size_t o = 0; o < setup.operations.size(); ++o) {
    std::unique_ptr<Plan>& plan = state.plans[CollectiveState::place(setup.job, o)];
    if (plan == nullptr) plan = TRY(make_plan(inputs[setup.operations[o].size]));
  }
  return {};
}

}  // namespace

std::string JobState::doubt_after(const CollectiveProgress& progress) const {
  const uint64_t times = progress.held_back;
  if (!doubt.empty() || times == 0) return doubt;
  if (setup->job.in_flight_suffices) return {};
  return "emulated ranks were held back " + std::to_string(times) + " times: there is memory for " +
         std::to_string(setup->job.in_flight) +
         " operations at a time, and NCCL's ranks would be further ahead of each other, so "
         "operations may take too long";
}

Result<std::unique_ptr<JobState>> begin_job(const Config& config, const JobConfig& job,
                                            std::shared_ptr<const CollectiveSetup> setup,
                                            WorkloadExecutor* workload, uint32_t group) {
  const auto error = [&](const Error& e) {
    return fail(config.path + ":" + std::to_string(job.line) + ": job: " + e.text);
  };
  auto begun = std::make_unique<JobState>();
  CollectiveState& state = begun->ranks;
  PlanEstimate estimate = plan_estimate(config, job, *setup);
  begun->setup = std::move(setup);
  begun->fitted = std::move(estimate.inputs);
  const std::vector<PlanInput>& inputs = begun->inputs();
  if (auto made = make_plans(*begun->setup, inputs, state); !made) return error(made.error());
  auto modelled = modelled_times(*begun->setup, inputs);
  if (!modelled) return error(modelled.error());
  begun->modelled = std::move(*modelled);
  begun->doubt = std::move(estimate.doubt);
  if (begun->setup->carried) {
    state.carrier =
        std::make_unique<InnerMessages>(begun->setup->inner, begun->setup->inner_settings);
    if (job.join && !job.join->joins_once()) state.carrier->keep_open();
    if (const auto failover = net_ib_environment(config).failover_of(job.nccl)) {
      state.carrier->fail_over(failover->one_device ? InnerFailover::kOnce : InnerFailover::kWhile);
    }
  }
  state.workload = workload;
  state.group = group;
  return begun;
}

Result<std::unique_ptr<JobState>> begin_job_again(JobState& former) {
  auto again = std::make_unique<JobState>();
  again->setup = former.setup;
  again->modelled = former.modelled;
  again->model = former.model;
  again->doubt = former.doubt;
  again->fitted = std::move(former.fitted);
  again->ranks = std::move(former.ranks);
  // One of them may have stopped in the middle of an operation.
  again->ranks.plans.clear();
  TRY(make_plans(*again->setup, again->inputs(), again->ranks));
  return again;
}

Result<std::vector<std::unique_ptr<JobState>>> begin_jobs(const Scenario& scenario,
                                                          SharedNetwork* network,
                                                          WorkloadExecutor& workload,
                                                          bool recorded) {
  const Config& config = scenario.config;
  std::vector<std::unique_ptr<JobState>> states(scenario.jobs.size());
  for (uint32_t j = 0; j < states.size(); ++j) {
    const JobConfig& job = config.jobs[j];
    if (scenario.jobs[j].emulated) {
      TRY(network->carry(job, workload, j, recorded));
      continue;
    }
    const bool told = scenario.clock == RunClock::kVirtual;
    states[j] = TRY(begin_job(config, job, scenario.jobs[j].setup, told ? &workload : nullptr, j));
    TRY(model_by_packets(config, job, *states[j]));
    if (network != nullptr) TRY(network->carry(job, states[j]->ranks.carrier.get()));
  }
  return states;
}

}  // namespace understudy
