// Which sub-trees of an operation are in closed form, and the operation that remains.
#include <algorithm>
#include <utility>

#include "collective_model/plan/closed_tree.h"
#include "collective_model/schedule/tree.h"

namespace understudy {
namespace {

/// Some of a rank's connections, all of one lane; if not whole, nothing is waited for.
class SomeOfTree : public RankSchedule {
 public:
  SomeOfTree(std::shared_ptr<const RankSchedule> all, uint32_t first, uint32_t count, bool whole)
      : all_(std::move(all)), first_(first), whole_(whole) {
    const auto begin = all_->connections().begin() + first;
    connections_.assign(begin, begin + count);
  }
  Message message(uint32_t connection, uint64_t k) const override {
    return all_->message(first_ + connection, k);
  }
  uint64_t alternates_until(uint32_t connection, uint64_t k) const override {
    return all_->alternates_until(first_ + connection, k);
  }
  Waits waits(uint32_t connection, uint64_t k) const override {
    if (!whole_) return {};
    Waits waits = all_->waits(first_ + connection, k);
    for (Wait& wait : waits) wait.connection -= first_;
    return waits;
  }

 private:
  std::shared_ptr<const RankSchedule> all_;
  uint32_t first_;
  bool whole_;
};

}  // namespace

/// Cuts the tree of each lane.
class ClosedTree::Builder {
 public:
  explicit Builder(const PlanInput& config)
      : config_(config), n_(static_cast<uint32_t>(config.ranks.size())) {}

  std::unique_ptr<ClosedTree> build(uint32_t most) {
    if (n_ < 2 || config_.hops.size() != n_ || config_.real.empty() || config_.wire.mtu == 0 ||
        !config_.carried.empty() || config_.step_cost < Duration() ||
        (!config_.entry_delay.empty() && config_.entry_delay.size() != n_)) {
      return {};
    }
    out_.reset(new ClosedTree);
    out_->ranks_.resize(n_);
    for (const uint32_t rank : config_.real) {
      if (rank >= n_) return {};
      out_->ranks_[rank].real = true;
    }
    for (uint32_t r = 0; r < n_; ++r) {
      const auto* tree = dynamic_cast<const TreeRankSchedule*>(config_.ranks[r].get());
      if (tree == nullptr || config_.hops[r].size() != tree->connections().size()) return {};
      first_.push_back(tree->lanes());
      first_.back().push_back(static_cast<uint32_t>(tree->connections().size()));
      if (first_[r].size() != first_[0].size()) return {};
      if (!config_.entry_delay.empty()) out_->ranks_[r].delay = config_.entry_delay[r];
    }
    out_->lanes_ = static_cast<uint32_t>(first_[0].size()) - 1;
    out_->places_.resize(size_t{n_} * out_->lanes_);
    out_->step_ = config_.step_cost;
    reduced_.wire = config_.wire;
    reduced_.step_cost = config_.step_cost;
    for (uint32_t lane = 0; lane < out_->lanes_; ++lane) {
      if (!add_lane(lane)) return {};
    }
    if (out_->reduced_.size() * 100 > size_t{n_} * out_->lanes_ * most) return {};
    Result<GeneralPlan> plan = GeneralPlan::make(std::move(reduced_));
    if (!plan) return {};
    out_->plan_ = std::make_unique<GeneralPlan>(std::move(*plan));
    out_->done_.reserve(n_);
    return std::move(out_);
  }

 private:
  struct Link {
    uint32_t rank = kNone;  ///< at its upper end; none: the root
    uint32_t sends = 0;     ///< its connection down
    bool network = false;
    uint32_t first = 0, end = 0;  ///< connections of the rank at the lower end
    bool holds_real = false;
    // Slowest in the sub-tree below, of whole messages: on the wire, and there and back.
    Duration up_wire, up_round, down_wire, down_round;
  };

  const Connection& connection(uint32_t rank, uint32_t c) const {
    return config_.ranks[rank]->connections()[c];
  }
  const Hop& hop(uint32_t rank, uint32_t c) const { return config_.hops[rank][c]; }
  Duration wire(uint32_t rank, uint32_t c, uint64_t k) const {
    return hop(rank, c).time_for(config_.wire, config_.ranks[rank]->message(c, k).wire);
  }
  Duration round(uint32_t rank, uint32_t c) const {
    return wire(rank, c, 0) + hop(rank, c).latency * 2;
  }

  bool add_lane(uint32_t lane) {
    // Ranks in an order in which those above come first.
    std::vector<uint32_t> order;
    std::vector<Link> links(n_);
    for (uint32_t r = 0; r < n_; ++r) {
      if (static_cast<const TreeRankSchedule&>(*config_.ranks[r]).is_root(lane)) order = {r};
    }
    for (size_t i = 0; i < order.size(); ++i) {
      const uint32_t r = order[i];
      Link& link = links[r];
      link.first = first_[r][lane];
      link.end = first_[r][lane + 1];
      for (uint32_t c = link.first + (i == 0 ? 0 : 2); c < link.end; c += 2) {
        const Connection& sends = connection(r, c + 1);
        if (sends.direction != Direction::kSend || sends.to >= n_ || order.size() == n_) {
          return false;
        }
        if (!alike(connection(r, c), sends) || (!sends.network && config_.inside)) return false;
        links[sends.to].rank = r;
        links[sends.to].sends = c + 1;
        links[sends.to].network = sends.network;
        order.push_back(sends.to);
      }
    }
    if (order.size() != n_) return false;
    for (size_t i = order.size(); i-- > 0;) {
      Link& link = links[order[i]];
      link.holds_real |= out_->ranks_[order[i]].real;
      if (i == 0) break;
      Link& above = links[link.rank];
      above.holds_real |= link.holds_real;
      if (link.network && !sizes_fit(order[i], link)) return false;
      const Link all = with_own(order[i], link);
      above.up_wire = std::max(above.up_wire, all.up_wire);
      above.up_round = std::max(above.up_round, all.up_round);
      above.down_wire = std::max(above.down_wire, all.down_wire);
      above.down_round = std::max(above.down_round, all.down_round);
    }
    for (const uint32_t r : order) {
      if (links[r].rank == kNone) {
        add_whole(r, lane, links[r]);
        continue;
      }
      const Place& above = out_->place(links[r].rank, lane);
      if (above.folded != kNone) {
        pending_.push_back(r);  // in the sub-tree of the one above
      } else if (!links[r].network || links[r].holds_real || out_->ranks_[links[r].rank].real ||
                 !can_fold(r, links[r])) {
        add_whole(r, lane, links[r]);
      } else {
        begin_sub_tree(r, lane, links[r]);
      }
      if (above.folded != kNone) out_->places_[r * out_->lanes_ + lane].folded = 0;
    }
    // Those of one sub-tree together: depth first from each one's first rank.
    std::vector<std::vector<uint32_t>> below(n_);
    for (const uint32_t r : std::exchange(pending_, {})) below[links[r].rank].push_back(r);
    for (uint32_t t = lane_trees_; t < out_->sub_trees_.size(); ++t) {
      SubTree& tree = out_->sub_trees_[t];
      tree.first = static_cast<uint32_t>(out_->folded_.size());
      std::vector<uint32_t> members = {tree_roots_[t]};
      for (size_t i = 0; i < members.size(); ++i) {
        const uint32_t r = members[i];
        Place& p = out_->places_[r * out_->lanes_ + lane];
        p.folded = static_cast<uint32_t>(out_->folded_.size());
        p.sub_tree = t;
        p.first = links[r].first;
        add_folded(r, lane, links[r]);
        for (const uint32_t child : below[r]) members.push_back(child);
      }
      tree.end = static_cast<uint32_t>(out_->folded_.size());
    }
    lane_trees_ = static_cast<uint32_t>(out_->sub_trees_.size());
    return true;
  }

  static bool alike(const Connection& a, const Connection& b) {
    return a.messages == b.messages && a.window == b.window && a.network == b.network;
  }
  bool is_even(uint32_t r, const Link& link) const {
    const Hop& up = hop(r, link.first);
    if (up.latency < Duration() || up.is_uneven()) return false;
    return !link.network || !hop(link.rank, link.sends).is_uneven();
  }
  /// All messages but the last are equal, and that one is no larger.
  bool sizes_fit(uint32_t r, const Link& link) const {
    const RankSchedule& s = *config_.ranks[r];
    const uint64_t messages = connection(r, link.first).messages;
    if (messages == 0 || !is_even(r, link)) return false;
    const uint32_t whole = s.message(link.first, 0).wire;
    return (messages < 2 || s.message(link.first, messages - 2).wire == whole) &&
           s.message(link.first, messages - 1).wire <= whole;
  }
  /// What is slowest in a sub-tree, the hop above it included.
  Link with_own(uint32_t r, Link link) const {
    if (!link.network) return link;
    link.up_wire = std::max(link.up_wire, wire(r, link.first, 0));
    link.up_round = std::max(link.up_round, round(r, link.first));
    link.down_wire = std::max(link.down_wire, wire(link.rank, link.sends, 0));
    link.down_round = std::max(link.down_round, round(link.rank, link.sends));
    return link;
  }
  bool can_fold(uint32_t r, const Link& link) const {
    return link.up_wire <= wire(r, link.first, 0) && link.up_round <= round(r, link.first) &&
           link.down_wire <= wire(link.rank, link.sends, 0) &&
           link.down_round <= round(link.rank, link.sends);
  }

  uint32_t add_reduced(uint32_t r, uint32_t first, uint32_t count, bool whole) {
    const auto id = static_cast<uint32_t>(out_->reduced_.size());
    reduced_.ranks.push_back(
        std::make_shared<const SomeOfTree>(config_.ranks[r], first, count, whole));
    const auto begin = config_.hops[r].begin() + first;
    reduced_.hops.emplace_back(begin, begin + count);
    out_->reduced_.push_back({r, first, kNone, false});
    return id;
  }
  void add_whole(uint32_t r, uint32_t lane, const Link& link) {
    const uint32_t id = add_reduced(r, link.first, link.end - link.first, true);
    if (out_->ranks_[r].real) reduced_.real.push_back(id);
    Place& p = out_->places_[r * out_->lanes_ + lane];
    p.reduced = id;
    p.first = link.first;
  }
  void begin_sub_tree(uint32_t r, uint32_t lane, const Link& link) {
    const auto index = static_cast<uint32_t>(out_->sub_trees_.size());
    SubTree tree;
    tree.up = add_reduced(r, link.first, 1, false);
    out_->reduced_.back().up = true;
    const uint32_t down = add_reduced(r, link.first + 1, 1, false);
    out_->reduced_.back().sub_tree = index;
    const Place& above = out_->place(link.rank, lane);
    tree.above = above.reduced;
    tree.above_sends = link.sends - above.first;
    const Connection& sends = connection(link.rank, link.sends);
    tree.messages = sends.messages;
    tree.window = sends.window;
    tree.wire = wire(link.rank, link.sends, 0);
    tree.tail_wire = wire(link.rank, link.sends, sends.messages - 1);
    tree.latency = hop(link.rank, link.sends).latency;
    out_->sub_trees_.push_back(tree);
    tree_roots_.push_back(r);
    Place& p = out_->places_[r * out_->lanes_ + lane];
    p.reduced = down;
    p.folded = 0;  // known below
  }
  void add_folded(uint32_t r, uint32_t lane, const Link& link) {
    Folded f;
    f.rank = r;
    f.above = out_->place(link.rank, lane).folded;
    f.network = link.network;
    if (link.network) {
      const Duration down = hop(link.rank, link.sends).latency + config_.step_cost;
      f.up_latency = hop(r, link.first).latency;
      f.up = wire(r, link.first, 0) + f.up_latency + config_.step_cost;
      f.down_full = wire(link.rank, link.sends, 0) + down;
      f.down_tail =
          wire(link.rank, link.sends, connection(link.rank, link.sends).messages - 1) + down;
      f.wire = wire(link.rank, link.sends, 0);
      f.round = round(link.rank, link.sends);
    }
    if (link.network && f.above != kNone) {
      Folded& above = out_->folded_[f.above];
      above.round_below = std::max(above.round_below, f.round);
    }
    out_->folded_.push_back(f);
  }

  const PlanInput& config_;
  const uint32_t n_;
  std::unique_ptr<ClosedTree> out_;
  std::vector<std::vector<uint32_t>> first_;  ///< connection, by rank and lane, and the end
  PlanInput reduced_;
  std::vector<uint32_t> pending_, tree_roots_;
  uint32_t lane_trees_ = 0;  ///< sub-trees of lanes before
};

std::unique_ptr<ClosedTree> ClosedTree::cut(const PlanInput& config, uint32_t most) {
  return Builder(config).build(most);
}

}  // namespace understudy
