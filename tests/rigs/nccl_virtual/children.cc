// Children of a virtual job's communicator: who is in them, and the jobs that they carry out.
#include <algorithm>

#include "collective_model/nccl/p2p_rounds.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/schedule/job_schedule.h"
#include "tests/rigs/nccl_virtual/virtual_job.h"

namespace understudy::nccl_rank {

void VirtualJob::add_children() {
  for (size_t j = 1; j < real_config_.jobs.size(); ++j) {
    const JobConfig& job = real_config_.jobs[j];
    if (!job.child) continue;
    ChildSide& side = children_.emplace_back();
    side.job = j;
    JobConfig found = job;
    found.search_channels = options_.search_channels;
    side.state =
        begin_job(real_config_, found, build_collective(real_config_, found, false).value())
            .value();
    side.workload.emplace(real_config_, job, *side.state);
    const uint32_t gpus = side.state->setup->communicator.gpus;
    for (const NodeId id : job.ranks) {
      if (!real_config_.nodes[id].real) continue;
      const auto at = std::ranges::find_if(
          reals_, [&](const auto& real) { return config_.ports[real->ports.front()].node == id; });
      side.nodes.push_back(
          {id, std::make_unique<ReferenceNode>(real_config_, job, *side.state,
                                               static_cast<uint32_t>(side.nodes.size()),
                                               (*at)->side.control)});
      side.ranks += gpus;
    }
  }
}

std::vector<uint32_t> VirtualJob::members(size_t number, uint32_t rank) const {
  const Options::Split& split = options_.splits[number];
  std::vector<uint32_t> parent;
  if (split.of >= 0) {
    parent = members(static_cast<size_t>(split.of), rank);
  } else {
    for (uint32_t r = 0; r < setup().communicator.ranks(); ++r) parent.push_back(r);
  }
  std::vector<std::pair<int, uint32_t>> in;
  const auto place = static_cast<int>(std::ranges::find(parent, rank) - parent.begin());
  for (int r = 0; r < static_cast<int>(parent.size()); ++r) {
    const bool out = std::ranges::find(split.excluded, r) != split.excluded.end();
    if (split.color ? split.color(r) != split.color(place) : out) continue;
    in.emplace_back(split.color ? split.key(r) : r, parent[static_cast<size_t>(r)]);
  }
  std::ranges::stable_sort(in, {}, &std::pair<int, uint32_t>::first);
  std::vector<uint32_t> out;
  for (const auto& [key, r] : in) out.push_back(r);
  return out;
}

VirtualJob::ChildEnd VirtualJob::end_of(size_t split, uint32_t rank) {
  ChildEnd end;
  const std::vector<uint32_t> all = members(split, rank);
  const auto place = static_cast<uint32_t>(std::ranges::find(all, rank) - all.begin());
  size_t same = 0;  // earlier splits into the same ranks
  for (size_t s = 0; s < split; ++s) same += members(s, rank) == all ? 1 : 0;
  for (ChildSide& side : children_) {
    if (real_config_.jobs[side.job].child->members != all || same-- > 0) continue;
    end.side = &side;
    const NodeId id = job_.ranks[rank / setup().communicator.gpus];
    const auto at = std::ranges::find(side.nodes, id, &ChildSide::Node::id);
    end.node = at->node.get();
    end.gpu = side.state->setup->communicator.gpu_of(place);
    break;
  }
  return end;
}

Task<> VirtualJob::make_children(Program* program, nccl_rank::Communicator* comm,
                                 std::vector<ChildEnd>* ends) {
  RealRank& rank = *program->rank;
  const auto own = static_cast<uint32_t>(rank.rank());
  for (size_t s = 0; s < options_.splits.size(); ++s) {
    const Options::Split& split = options_.splits[s];
    nccl_rank::Communicator* parent = comm;
    ends->emplace_back();
    if (split.of >= 0) parent = (*ends)[static_cast<size_t>(split.of)].comm;
    if (parent == nullptr) continue;  // it has no part in it
    ChildEnd found = end_of(s, own);
    IbAdapter* const adapter = found.node == nullptr ? nullptr : &found.node->adapter(found.gpu);
    if (split.color) {
      const int place = parent->rank();
      found.comm = co_await rank.split(parent, split.color(place), split.key(place), adapter);
    } else if (std::ranges::find(split.excluded, parent->rank()) == split.excluded.end()) {
      found.comm = co_await rank.shrink(parent, split.excluded, adapter);
    }
    (*ends)[s] = found;
  }
}

/// All operations of the child, as its program calls them one after the other.
Task<> VirtualJob::carry_out(Program* program, ChildEnd end) {
  if (end.comm == nullptr || end.side == nullptr) co_return;
  RealRank& rank = *program->rank;
  ReferenceNode& node = *end.node;
  ChildSide& side = *end.side;
  const CollectiveSetup& child = *side.state->setup;
  const bool eager = !options_.lazy || job_.nccl < NcclVersion{22};
  const auto schedules = job_schedules(real_config_, real_config_.jobs[side.job]);
  for (size_t operation = 0; operation < child.operations.size(); ++operation) {
    const Operation& next = schedules->at(child.operations[operation].size).operation;
    rank.stand("operation " + std::to_string(operation) + " of a child");
    if (is_p2p(next.collective)) {
      std::set<Link> all;
      const auto own = static_cast<uint32_t>(end.comm->rank());
      for (const CollectiveConnection& link : child.job.links) {
        if (link.index == 0 || link.real != own) continue;
        for (const uint32_t channel :
             p2p_channels_between(child.communicator, link.real_sends ? own : link.far,
                                  link.real_sends ? link.far : own)) {
          all.insert({static_cast<int>(channel), static_cast<int>(link.far), 1, link.real_sends});
        }
      }
      if (operation == 0) co_await rank.connect_pairs(end.comm, {all.begin(), all.end()});
    } else if (!eager && operation == 0) {
      if (next.algorithm == Algorithm::kRing) co_await rank.connect_ring(end.comm);
      if (next.algorithm == Algorithm::kTree) co_await rank.connect_tree(end.comm);
      if (next.algorithm == Algorithm::kPat) co_await rank.connect_pat(end.comm);
    }
    co_await rank.until([&node, operation] { return node.can_carry(operation); });
    if (operation == 0) {
      ++side.ready;
      co_await rank.until([&side] { return side.ready == side.ranks; });
      if (end.gpu == 0) node.start();
    }
    co_await rank.until([&node, operation] {
      const CollectiveProgress& p = node.progress();
      return p.failed || p.finished > operation;
    });
    require(!node.progress().failed, "a queue pair of the reference rank failed");
  }
}

std::vector<const CollectiveProgress*> VirtualJob::child_progress(size_t job) const {
  std::vector<const CollectiveProgress*> all;
  for (const ChildSide& side : children_) {
    if (side.job != job) continue;
    for (const ChildSide::Node& node : side.nodes) all.push_back(&node.node->progress());
  }
  return all;
}

}  // namespace understudy::nccl_rank
