#include "ctrl/session/operation_maker.h"

#include <algorithm>

#include "collective_model/channel_cut.h"
#include "ctrl/build/collective_shape.h"
#include "ctrl/build/job_schedule.h"

namespace understudy {

std::string text_of(const Operation& o) {
  std::string text = std::string(name_of(kCollectiveNames, o.collective)) + " " +
                     std::string(name_of(kAlgorithmNames, o.algorithm)) + " " +
                     std::string(name_of(kProtocolNames, o.protocol)) + " of " +
                     std::to_string(o.bytes()) + " B";
  if (o.collective == Collective::kBroadcast || o.collective == Collective::kReduce) {
    text += ", root " + std::to_string(o.root);
  }
  return text;
}

bool same(const Operation& a, const Operation& b) {
  return a.collective == b.collective && a.algorithm == b.algorithm && a.protocol == b.protocol &&
         a.type == b.type && a.count == b.count && a.root == b.root && a.channels == b.channels &&
         a.threads == b.threads;
}

OperationMaker::OperationMaker(const Config& config, const JobConfig& job, const Topology* topology,
                               const CollectiveJob& told, bool strict)
    : config_(config),
      job_(job),
      topology_(topology),
      told_(told),
      communicator_(job_communicator(config, job)),
      strict_(strict) {}

Result<std::unique_ptr<ReactiveOperation>> OperationMaker::make(const Operation& operation) const {
  if (auto known = check_operation(communicator_, operation); !known) {
    return tl::unexpected(known.error());
  }
  const auto cut = cut_group(communicator_, {&operation, 1});
  if (!cut) return tl::unexpected(cut.error());
  EnvironmentConfig plan =
      plan_config(config_, job_, communicator_, operation,
                  rank_schedules(communicator_, operation, (*cut)[0]), topology_);
  plan.real = told_.real;
  std::vector<const RankSchedule*> all;
  for (const auto& rank : plan.ranks) all.push_back(rank.get());
  const auto far = far_ends(all);
  if (!far) return fail("a connection has one end only");
  auto shape = make_shape(
      plan, operation.bytes(), *far,
      [&](const Connection& connection, uint32_t real, uint32_t other,
          Duration) -> Result<uint32_t> {
        const auto found = std::ranges::find_if(told_.links, [&](const CollectiveLink& l) {
          return l.channel == connection.channel && l.index == connection.index && l.real == real &&
                 l.far == other && l.real_sends == (connection.direction == Direction::kSend);
        });
        if (found != told_.links.end()) return static_cast<uint32_t>(found - told_.links.begin());
        if (!strict_) return CollectiveShape::kUnused;
        return fail("the job has no connection from rank " + std::to_string(connection.from) +
                    " to rank " + std::to_string(connection.to) + " on channel " +
                    std::to_string(connection.channel));
      });
  if (!shape) return tl::unexpected(shape.error());
  (*shape)->uses.resize(told_.links.size());
  auto made = make_plan(std::move(plan));
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<ReactiveOperation>(told_, std::move(*shape), std::move(*made));
}

}  // namespace understudy
