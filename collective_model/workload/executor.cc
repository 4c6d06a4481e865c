#include "collective_model/workload/executor.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

Time rounded_up(Time at, Duration period) {
  if (period == Duration()) return at;
  return Time::from_ps((at.ps() + period.ps() - 1) / period.ps() * period.ps());
}

}  // namespace

WorkloadExecutor::WorkloadExecutor(const Workload& workload) : workload_(workload) {
  const std::vector<WorkloadNode>& nodes = workload.nodes();
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    first_.push_back(static_cast<uint32_t>(instances_.size()));
    Instance fresh;
    fresh.node = node;
    fresh.left = nodes[node].kind == WorkloadNode::Kind::kStart ? 1 : 0;  // begin()
    instances_.insert(instances_.end(), workload.ranks(nodes[node].group), fresh);
  }
  for (uint32_t node = 0; node < nodes.size(); ++node) {
    for (const Workload::Edge& edge : workload.edges(node)) {
      const uint32_t ranks = workload.ranks(nodes[edge.to].group);
      for (uint32_t rank = 0; rank < ranks; ++rank) ++instances_[instance(edge.to, rank)].left;
    }
  }
  for (const RankPlaces& places : workload.places()) {
    std::vector<Count>& counts = counts_.emplace_back();
    for (const uint32_t ranks : places.former_at) counts.push_back({ranks, Time()});
    counts.push_back({static_cast<uint32_t>(places.former_at.size()), Time()});
  }
  for (uint32_t group = 0; group < workload.groups(); ++group) {
    listeners_.emplace_back(workload.ranks(group), nullptr);
  }
}

void WorkloadExecutor::listen(uint32_t group, uint32_t rank, WorkloadListener& listener) {
  ASSERT_INVARIANT(group < listeners_.size() && rank < listeners_[group].size());
  listeners_[group][rank] = &listener;
}

void WorkloadExecutor::begin(uint32_t group, uint32_t rank, Time now) {
  DEBUG_ASSERT_INVARIANT(workload_.nodes()[workload_.first(group)].kind ==
                         WorkloadNode::Kind::kStart);
  arrive(workload_.first(group), rank, now);
  settle();
}

void WorkloadExecutor::done(uint32_t group, uint32_t operation, uint32_t rank, Time at) {
  const uint32_t node = workload_.operations(group)[operation];
  DEBUG_ASSERT_INVARIANT(instances_[instance(node, rank)].left == 0);
  release(node, rank, at);
  settle();
}

Time WorkloadExecutor::begun(uint32_t group, uint32_t rank) const {
  return instances_[instance(workload_.first(group), rank)].at;
}

/// One of the things that the node waits for on this rank is done.
void WorkloadExecutor::arrive(uint32_t node, uint32_t rank, Time at) {
  const uint32_t number = instance(node, rank);
  Instance& it = instances_[number];
  DEBUG_ASSERT_INVARIANT(it.left > 0);
  it.at = std::max(it.at, at);
  if (--it.left > 0) return;
  (ready_ == kNone ? ready_ : instances_[last_ready_].next) = number;
  last_ready_ = number;
}

/// The node is done on this rank.
void WorkloadExecutor::release(uint32_t node, uint32_t rank, Time at) {
  for (const Workload::Edge& edge : workload_.edges(node)) {
    if (edge.places == Workload::kAllAlike) {
      arrive(edge.to, rank, at);
    } else {
      release_at_place(edge, rank, at);
    }
  }
}

void WorkloadExecutor::release_at_place(const Workload::Edge& edge, uint32_t rank, Time at) {
  const RankPlaces& places = workload_.places()[edge.places];
  std::vector<Count>& counts = counts_[edge.places];
  const uint32_t place = places.of_former[rank];
  Count& own = counts[place];
  Count& all = counts.back();
  DEBUG_ASSERT_INVARIANT(own.left > 0 && all.left > 0);
  own.at = std::max(own.at, at);
  if (--own.left > 0) return;
  for (const uint32_t waiting : places.waiting[place]) arrive(edge.to, waiting, own.at);
  all.at = std::max(all.at, own.at);
  if (--all.left > 0) return;
  for (const uint32_t waiting : places.rest) arrive(edge.to, waiting, all.at);
}

/// What is ready, in the order in which it became so. Listeners may call back, which only adds to it.
void WorkloadExecutor::settle() {
  if (settling_) return;
  settling_ = true;
  while (ready_ != kNone) {
    const uint32_t next = ready_;
    ready_ = instances_[next].next;
    carry_out(next);
  }
  settling_ = false;
}

void WorkloadExecutor::carry_out(uint32_t number) {
  Instance& it = instances_[number];
  const WorkloadNode& node = workload_.nodes()[it.node];
  const uint32_t rank = number - first_[it.node];
  switch (node.kind) {
    case WorkloadNode::Kind::kStart:
      it.at = std::max(it.at, node.start);
      return release(it.node, rank, it.at);
    case WorkloadNode::Kind::kCompute:
      return release(it.node, rank, it.at + node.time(rank));
    case WorkloadNode::Kind::kOperation:
      DEBUG_ASSERT_INVARIANT(listeners_[node.group][rank] != nullptr);
      return listeners_[node.group][rank]->may_enter(
          node.operation, rank, rounded_up(it.at, node.period) + node.time(rank));
  }
}

}  // namespace understudy
