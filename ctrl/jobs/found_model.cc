#include "ctrl/jobs/found_model.h"

#include <algorithm>
#include <optional>

#include "ctrl/compile/ways/inner_way.h"
#include "ctrl/jobs/job_state.h"
#include "ctrl/jobs/packet_model.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// `job` with this kernel as its one operation; nothing: no [[job]] can be written so.
std::optional<JobConfig> listing(const JobConfig& job, const Kernel& kernel) {
  const Operation& first = kernel.front();
  const bool alike = std::ranges::all_of(kernel, [&](const Operation& o) {
    return o.collective == first.collective && o.algorithm == first.algorithm &&
           o.protocol == first.protocol && o.type == first.type && o.root == first.root;
  });
  if (!alike || !first.pair_bytes.empty()) return std::nullopt;
  JobConfig one = job;
  one.listed = true;
  one.operations = OperationsMode::kTold;
  one.collective = first.collective;
  one.algorithm = first.algorithm;
  one.protocol = first.protocol;
  one.type = first.type;
  one.root = first.root;
  one.group = kernel.size() > 1;
  one.iterations = 1;
  one.warmup = 0;
  one.sizes.clear();
  for (const Operation& operation : kernel) one.sizes.push_back(operation.bytes());
  return one;
}

}  // namespace

Result<FoundModel> model_of_found(const Config& config, const JobConfig& job,
                                  const OperationSource& found, const Kernel& kernel) {
  const auto one = listing(job, kernel);
  if (!one) {
    return FoundModel{TRY(found.plan_time(kernel)),
                      "what a group of different operations, or of sends and receives, takes is "
                      "its plan's estimate"};
  }
  const bool by_packets = goes_by_packets(config, *one);
  std::optional<Topology> network;
  if (by_packets) {
    auto built = build_topology(config);
    if (!built) return fail(describe(built.error()));
    network = std::move(*built);
  }
  auto setup =
      TRY(build_collective(config, *one, false, network ? &*network : nullptr, by_packets));
  auto state = TRY(begin_job(config, *one, std::move(setup)));
  TRY(model_by_packets(config, *one, *state));
  const bool holds = by_packets ? state->model == ModelKind::kPackets : state->doubt.empty();
  return FoundModel{state->modelled.front(),
                    holds ? "" : "what " + text_of(kernel) + " takes is its plan's estimate"};
}

}  // namespace understudy
