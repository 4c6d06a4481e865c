#include "collective_model/plan/uncongested_plan.h"

#include <algorithm>

#include "collective_model/plan/closed_ring.h"
#include "collective_model/plan/closed_tree.h"

namespace understudy {
namespace {

/// The ranks that share the first one's node, as ways inside it show.
std::vector<uint32_t> first_node(const PlanInput& config) {
  std::vector<uint32_t> node = {0};
  for (size_t i = 0; i < node.size(); ++i) {
    for (const Connection& c : config.ranks[node[i]]->connections()) {
      const uint32_t other = c.direction == Direction::kSend ? c.to : c.from;
      if (!c.network && std::ranges::find(node, other) == node.end()) node.push_back(other);
    }
  }
  return node;
}

}  // namespace

std::unique_ptr<Plan> UncongestedPlan::make(const PlanInput& given) {
  const auto n = static_cast<uint32_t>(given.ranks.size());
  if (n < 2 || given.hops.size() != n) return {};
  PlanInput config = given;
  config.real = first_node(config);
  std::unique_ptr<UncongestedPlan> out(new UncongestedPlan);
  out->others_ = ClosedRing::make(config);
  if (!out->others_) out->others_ = ClosedTree::make(config);
  if (!out->others_) return {};
  out->in_node_.resize(n);
  for (const uint32_t rank : config.real) out->in_node_[rank] = true;
  out->ranks_ = config.ranks;
  out->wire_ = config.wire;
  std::vector<const RankSchedule*> schedules;
  for (const auto& rank : config.ranks) schedules.push_back(rank.get());
  const auto ends = far_ends(schedules);
  if (!ends) return {};
  for (const uint32_t rank : config.real) {
    const std::vector<Connection>& connections = config.ranks[rank]->connections();
    for (uint32_t c = 0; c < connections.size(); ++c) {
      const FarEnd here{rank, c}, there = (*ends)[rank][c];
      if (out->in_node_[there.rank]) continue;
      const bool sends = connections[c].direction == Direction::kSend;
      Link link;
      link.from = sends ? here : there;
      link.to = sends ? there : here;
      const Hop& hop = config.hops[link.from.rank][link.from.connection];
      link.hop = hop;
      link.filled.reserve(connections[c].messages);
      link.credits.reserve(connections[c].messages);
      const auto index = static_cast<uint32_t>(out->links_.size());
      out->link_of_[{here.rank, here.connection}] = index;
      out->link_of_[{there.rank, there.connection}] = index;
      out->links_.push_back(std::move(link));
    }
  }
  config.real.clear();
  for (uint32_t rank = 0; rank < n; ++rank) {
    if (!out->in_node_[rank]) config.real.push_back(rank);
  }
  Result<GeneralPlan> node = GeneralPlan::make(std::move(config));
  if (!node) return {};
  out->node_ = std::make_unique<GeneralPlan>(std::move(*node));
  return out;
}

void UncongestedPlan::start(Time entry) {
  begin();
  others_->start(entry);
  node_->start(entry);
  settle();
}

void UncongestedPlan::begin() {
  others_->begin();
  node_->begin();
  for (Link& link : links_) {
    link.filled.clear();
    link.credits.clear();
    link.sent = 0;
    link.free = kLongBefore;
  }
}

void UncongestedPlan::enter(uint32_t rank, Time entry) {
  of(rank).enter(rank, entry);
  settle();
}

void UncongestedPlan::settle() {
  for (bool moved = true; moved;) {
    moved = take(*node_);
    moved |= take(*others_);
  }
}

/// Hands on what a plan says; false if it has nothing to say.
bool UncongestedPlan::take(Plan& plan) {
  bool any = false;
  for (PlanOutput out; plan.next(out); any = true) {
    Link& link = links_[link_of_.find({out.rank, out.connection})->second];
    (out.kind == PlanOutput::Kind::kData ? link.filled : link.credits).push_back(out.time);
    send(link);
  }
  return any;
}

void UncongestedPlan::send(Link& link) {
  while (link.sent < link.filled.size() && link.sent < link.credits.size()) {
    const uint64_t k = link.sent++;
    const uint32_t size = ranks_[link.from.rank]->message(link.from.connection, k).wire;
    link.free = std::max({link.filled[k], link.free, link.credits[k] + link.hop.credit_latency()}) +
                link.hop.time_for(wire_, size);
    of(link.to.rank)
        .on_real_data(link.to.rank, link.to.connection, k, link.free + link.hop.latency);
    of(link.from.rank)
        .on_acknowledged(link.from.rank, link.from.connection, k,
                         link.free + link.hop.round_trip());
  }
}

}  // namespace understudy
