#include "ctrl/jobs/operations/operation_maker.h"

#include <algorithm>
#include <utility>

#include "collective_model/nccl/channel_cut.h"
#include "collective_model/schedule/group.h"
#include "collective_model/schedule/p2p.h"
#include "ctrl/compile/collective_shape.h"
#include "ctrl/compile/modelled_time.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/try.h"

namespace understudy {

namespace {

/// Of sends and receives of any sizes.
std::string pairs_text(const Operation& o) {
  uint64_t pairs = 0, bytes = 0;
  for (const uint64_t pair : o.pair_bytes) {
    if (pair == kNoPair) continue;
    ++pairs;
    bytes += pair;
  }
  return "sends of " + std::to_string(pairs) + " pairs of ranks, " + std::to_string(bytes) + " B";
}

}  // namespace

std::string text_of(const Operation& o) {
  if (o.collective == Collective::kAllToAllV) return pairs_text(o);
  std::string text(name_of(kCollectiveNames, o.collective));
  if (!is_p2p(o.collective)) {
    text += " " + std::string(name_of(kAlgorithmNames, o.algorithm)) + " " +
            std::string(name_of(kProtocolNames, o.protocol));
  }
  text += " of " + std::to_string(o.bytes()) + " B";
  if (has_root(o.collective)) text += ", root " + std::to_string(o.root);
  return text;
}

std::string text_of(const Kernel& kernel) {
  std::string text;
  for (const Operation& operation : kernel) {
    text += (text.empty() ? "" : "; ") + text_of(operation);
  }
  return text;
}

bool same(const Operation& a, const Operation& b) {
  return a.collective == b.collective && a.algorithm == b.algorithm && a.protocol == b.protocol &&
         a.type == b.type && a.count == b.count && a.root == b.root && a.channels == b.channels &&
         a.threads == b.threads && a.pair_bytes == b.pair_bytes;
}

bool same(const Kernel& a, const Kernel& b) {
  return std::ranges::equal(a, b,
                            [](const Operation& x, const Operation& y) { return same(x, y); });
}

OperationMaker::OperationMaker(const Config& config, const JobConfig& job, const Topology* topology,
                               const CollectiveJob& told, bool strict)
    : config_(config),
      job_(job),
      topology_(topology),
      told_(told),
      communicator_(job_communicator(config, job)),
      strict_(strict) {
  for (uint32_t l = 0; l < told.links.size(); ++l) {
    const CollectiveConnection& link = told.links[l];
    links_[{link.channel, link.index, link.real, link.far, link.real_sends}] = l;
  }
  for (uint32_t i = 0; i < told.inner.size(); ++i) {
    const InternalConnection& c = told.inner[i];
    inner_[{c.channel, c.index, c.from, c.to}] = i;
  }
}

Result<PlanInput> OperationMaker::plan_of(const Kernel& kernel) const {
  const Operation& first = kernel.front();
  if (kernel.size() > 1) {
    auto ranks = TRY(kernel_schedules(communicator_, kernel));
    PlanInput plan = plan_config(config_, job_, communicator_, first, std::move(ranks), topology_);
    plan.real = told_.real;
    return plan;
  }
  TRY(check_operation(communicator_, first));
  OperationCut cut;
  if (!is_p2p(first.collective)) {
    auto cuts = TRY(cut_group(communicator_, kernel));
    cut = std::move(cuts.front());
  }
  if (told_.inner.empty()) {
    return plan_config(config_, job_, communicator_, first, cut, told_.real, topology_);
  }
  PlanInput plan = plan_config(config_, job_, communicator_, first,
                               rank_schedules(communicator_, first, cut), topology_);
  plan.real = told_.real;
  return plan;
}

tl::unexpected<Error> OperationMaker::no_connection(const Connection& connection) const {
  return fail("the job has no connection from rank " + std::to_string(connection.from) +
              " to rank " + std::to_string(connection.to) + " on channel " +
              std::to_string(connection.channel));
}

Result<Duration> OperationMaker::modelled(const Kernel& kernel) const {
  return modelled_time(told_, TRY(plan_of(kernel)));
}

Result<std::unique_ptr<OnlineOperation>> OperationMaker::make(const Kernel& kernel) const {
  PlanInput plan = TRY(plan_of(kernel));
  const auto far = far_ends_of(plan);
  if (!far) return fail("a connection has one end only");
  uint64_t bytes = 0;
  for (const Operation& operation : kernel) bytes += operation.bytes();
  auto shape = make_shape(plan, bytes, *far,
                          [&](const Connection& connection, uint32_t real, uint32_t other,
                              Duration) -> Result<uint32_t> {
                            const auto found =
                                links_.find({connection.channel, connection.index, real, other,
                                             connection.direction == Direction::kSend});
                            if (found != links_.end()) return found->second;
                            if (!strict_) return CollectiveShape::kUnused;
                            return no_connection(connection);
                          });
  if (!shape) return tl::unexpected(shape.error());
  if (!told_.inner.empty()) {
    TRY(carry_inner(plan, **shape, *far, [&](const Connection& c) -> Result<uint32_t> {
      const auto found = inner_.find({c.channel, c.index, c.from, c.to});
      if (found == inner_.end()) return no_connection(c);
      return found->second;
    }));
    (*shape)->inner_uses.resize(told_.inner.size());
  }
  (*shape)->uses.resize(told_.links.size());
  (*shape)->gathers = kernel.size() == 1 && kernel.front().collective == Collective::kAllGather &&
                      kernel.front().algorithm == Algorithm::kRing;
  auto made = TRY(make_plan(std::move(plan)));
  return std::make_unique<OnlineOperation>(told_, std::move(*shape), std::move(made));
}

}  // namespace understudy
