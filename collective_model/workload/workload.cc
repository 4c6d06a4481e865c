#include "collective_model/workload/workload.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {
namespace {

constexpr uint32_t kNone = ~uint32_t{0};

}  // namespace

RankPlaces RankPlaces::own_place_or_all(const std::vector<uint32_t>& former,
                                        const std::vector<uint32_t>& latter) {
  RankPlaces out;
  std::map<uint32_t, uint32_t> numbers;
  for (const uint32_t name : former) {
    const auto number = static_cast<uint32_t>(numbers.size());
    const uint32_t place = numbers.try_emplace(name, number).first->second;
    if (place == out.former_at.size()) out.former_at.push_back(0);
    out.of_former.push_back(place);
    ++out.former_at[place];
  }
  out.waiting.resize(out.former_at.size());
  for (uint32_t rank = 0; rank < latter.size(); ++rank) {
    const auto it = numbers.find(latter[rank]);
    (it == numbers.end() ? out.rest : out.waiting[it->second]).push_back(rank);
  }
  return out;
}

uint32_t Workload::add_group(uint32_t ranks) {
  ASSERT_INVARIANT(ranks > 0);
  ranks_.push_back(ranks);
  first_.push_back(kNone);
  operations_.emplace_back();
  return groups() - 1;
}

uint32_t Workload::add(WorkloadNode node) {
  ASSERT_INVARIANT(node.group < groups());
  ASSERT_INVARIANT(node.times.size() <= 1 || node.times.size() == ranks(node.group));
  const auto number = static_cast<uint32_t>(nodes_.size());
  if (first_[node.group] == kNone) first_[node.group] = number;
  if (node.kind == WorkloadNode::Kind::kOperation) {
    node.operation = static_cast<uint32_t>(operations_[node.group].size());
    operations_[node.group].push_back(number);
  }
  nodes_.push_back(std::move(node));
  edges_.emplace_back();
  return number;
}

void Workload::order(uint32_t from, uint32_t to) {
  ASSERT_INVARIANT(from < nodes_.size() && to < nodes_.size());
  ASSERT_INVARIANT(nodes_[from].group == nodes_[to].group);
  edges_[from].push_back({to, kAllAlike});
}

void Workload::order(uint32_t from, uint32_t to, RankPlaces places) {
  ASSERT_INVARIANT(from < nodes_.size() && to < nodes_.size());
  ASSERT_INVARIANT(places.of_former.size() == ranks(nodes_[from].group));
  edges_[from].push_back({to, static_cast<uint32_t>(places_.size())});
  places_.push_back(std::move(places));
}

std::vector<uint32_t> Workload::cycle() const {
  // Nodes that are free are taken away until none is; what is left stands in cycles or behind one.
  std::vector<uint32_t> before(nodes_.size()), free;
  for (const auto& edges : edges_) {
    for (const Edge& edge : edges) ++before[edge.to];
  }
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    if (before[node] == 0) free.push_back(node);
  }
  for (size_t i = 0; i < free.size(); ++i) {
    for (const Edge& edge : edges_[free[i]]) {
      if (--before[edge.to] == 0) free.push_back(edge.to);
    }
  }
  if (free.size() == nodes_.size()) return {};
  // Each of these waits for another one of them: the way back comes to a node twice.
  std::vector<uint32_t> waits_for(nodes_.size(), kNone), way;
  uint32_t node = kNone;
  for (uint32_t from = 0; from < nodes_.size(); ++from) {
    if (before[from] == 0) continue;
    for (const Edge& edge : edges_[from]) {
      if (before[edge.to] == 0) continue;
      waits_for[edge.to] = from;
      node = edge.to;
    }
  }
  ASSERT_INVARIANT(node != kNone);
  std::vector<bool> seen(nodes_.size());
  for (; !seen[node]; node = waits_for[node]) {
    seen[node] = true;
    way.push_back(node);
  }
  way.erase(way.begin(), std::ranges::find(way, node));
  std::ranges::reverse(way);
  return way;
}

}  // namespace understudy
