#include "collective_model/traces/trace_executor.h"

#include "dataplane/base/try.h"

namespace understudy {

std::string place_text(const TraceJob& job, uint32_t rank, const TraceNode& node) {
  TraceNode there;
  there.id = node.id + rank * job.id_step;
  there.name = node.name;
  return "rank " + std::to_string(rank) + ", " + title_of(there);
}

Result<TraceOrders> order_job(const TraceJob& job, TraceRules rules) {
  TraceOrders orders;
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    const TraceGraph* graph = job.ranks[rank].get();
    if (orders.contains(graph)) continue;
    if (graph->nodes().empty()) return fail("rank " + std::to_string(rank) + " has no nodes");
    auto order = order_trace(*graph, rules);
    if (!order) return fail("rank " + std::to_string(rank) + ": " + order.error().text);
    orders.emplace(graph, *std::move(order));
  }
  return orders;
}

TraceExecutor::TraceExecutor(const TraceJob& job, const TraceOrders& orders, TraceRules rules,
                             bool recorded)
    : rules_(rules), ranks_(job.ranks.size()) {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    rank.graph = job.ranks[i].get();
    rank.order = &orders.at(rank.graph);
    rank.parents = rank.order->parents;
    rank.left = rank.parents.size();
    rank.begun.resize(rank.left);
    if (recorded) rank.times.resize(rank.left);
    left_ += rank.left;
  }
}

void TraceExecutor::set_free(uint32_t rank, uint32_t index) {
  ranks_[rank].free.add(slot(node(rank, index)), index);
}

void TraceExecutor::begin(Time now) {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (uint32_t index = 0; index < ranks_[rank].parents.size(); ++index) {
      if (ranks_[rank].parents[index] == 0) set_free(rank, index);
    }
    visit(rank, now);
  }
}

/// Begins what can begin, in the order of ids.
void TraceExecutor::visit(uint32_t number, Time now) {
  Rank& rank = ranks_[number];
  rank.visiting = true;
  while (const auto index = rank.free.take()) {
    if (stopped_) return;
    begin_node(number, *index, now);
  }
  rank.visiting = false;
  for (const uint32_t index : rank.freed_by_skip) set_free(number, index);
  rank.freed_by_skip.clear();
  if (rank.left == 0) rank.finish = now;
}

void TraceExecutor::begin_node(uint32_t number, uint32_t index, Time now) {
  Rank& rank = ranks_[number];
  rank.begun[index] = true;
  if (listener_->is_skipped(number, index)) {
    if (!rank.times.empty()) rank.times[index] = {now, now, true};
    return free_children(rank, number, index);
  }
  if (!rank.times.empty()) rank.times[index].begin = now;
  rank.free.occupy(slot(node(number, index)));
  listener_->begins(number, index, now);
}

void TraceExecutor::ended(uint32_t number, uint32_t index, Time now) {
  Rank& rank = ranks_[number];
  if (!rank.times.empty()) rank.times[index].end = now;
  rank.free.release(slot(node(number, index)));
  free_children(rank, number, index);
  visit(number, now);
}

void TraceExecutor::free_children(Rank& rank, uint32_t number, uint32_t index) {
  --rank.left;
  --left_;
  const TraceOrder& order = *rank.order;
  for (uint32_t e = order.first[index]; e < order.first[index + 1]; ++e) {
    const uint32_t child = order.children[e];
    if (--rank.parents[child] > 0) continue;
    if (rank.visiting && rules_ == TraceRules::kFeeder3) {
      rank.freed_by_skip.push_back(child);
    } else {
      set_free(number, child);
    }
  }
}

}  // namespace understudy
