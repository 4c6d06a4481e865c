// From the schedules of one operation to its plan's input and to its shape: which connection of
// which ranks each link of a job is there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "collective_model/plan/operation_plan.h"
#include "ctrl/config/config.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/collective_job.h"

namespace understudy {

/// What plans of one operation need, but for PlanInput::real. `ranks`: all ranks' parts.
PlanInput plan_config(const Config& config, const JobConfig& job, const Communicator& communicator,
                      const Operation& operation,
                      std::vector<std::shared_ptr<const RankSchedule>> ranks,
                      const Topology* topology);

/// The same of an operation none of whose connections is carried, with real ranks; where there is a
/// plan that lists no connections, with the real ranks' parts only.
PlanInput plan_config(const Config& config, const JobConfig& job, const Communicator& communicator,
                      const Operation& operation, const OperationCut& cut,
                      const std::vector<uint32_t>& real, const Topology* topology);

/// far_ends() of a plan's ranks, by rank; where it does not list all, those of real ranks.
std::optional<std::vector<std::vector<FarEnd>>> far_ends_of(const PlanInput& plan);

/// The link of a connection of real rank `real` to rank `far`, `latency` away;
/// CollectiveShape::kUnused: it is left out.
using LinkOf = std::function<Result<uint32_t>(const Connection& connection, uint32_t real,
                                              uint32_t far, Duration latency)>;

/// The shape of an operation of `bytes`, whose `plan` knows its real ranks, but for inner links.
/// `far`: far_ends_of() it. Fails with what `link_of` says, or if it names a link twice.
Result<std::unique_ptr<CollectiveShape>> make_shape(const PlanInput& plan, uint64_t bytes,
                                                    const std::vector<std::vector<FarEnd>>& far,
                                                    const LinkOf& link_of);

/// The number of a connection between emulated ranks.
using InnerOf = std::function<Result<uint32_t>(const Connection& connection)>;

/// Connections between emulated ranks are the network's: in the plan's input, and in the shape that
/// make_shape() made of it. `plan` has all ranks' parts. Fails with what `inner_of` says.
Result<void> carry_inner(PlanInput& plan, CollectiveShape& shape,
                         const std::vector<std::vector<FarEnd>>& far, const InnerOf& inner_of);

}  // namespace understudy
