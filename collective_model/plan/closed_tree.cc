#include "collective_model/plan/closed_tree.h"

#include <algorithm>

#include "dataplane/base/assert.h"

namespace understudy {
std::unique_ptr<Plan> ClosedTree::make(const PlanInput& config, uint32_t most) {
  std::unique_ptr<ClosedTree> out = cut(config, most);
  if (out) out->begin();
  return out;
}

void ClosedTree::start(Time entry) {
  begin();
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (!ranks_[r].real) enter(r, entry + ranks_[r].delay);
  }
}

void ClosedTree::begin() {
  plan_->begin();
  size_t emulated = 0;
  for (Rank& rank : ranks_) {
    if (rank.real) continue;
    ++emulated;
    rank.left = lanes_;
    rank.last = kLongBefore;
  }
  done_.begin(emulated);
  for (SubTree& tree : sub_trees_) tree.waiting = tree.end - tree.first;
}

void ClosedTree::enter(uint32_t rank, Time entry) {
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    const Place& p = place(rank, lane);
    if (p.reduced != kNone) plan_->enter(p.reduced, entry);
    if (p.folded == kNone) continue;
    folded_[p.folded].entry = entry;
    if (--sub_trees_[p.sub_tree].waiting == 0) ready(sub_trees_[p.sub_tree]);
  }
  settle();
}

/// All ranks of the sub-tree have entered: when it can send its first message.
void ClosedTree::ready(SubTree& tree) {
  for (uint32_t i = tree.first; i < tree.end; ++i) folded_[i].ready = folded_[i].entry;
  for (uint32_t i = tree.end; i-- > tree.first + 1;) {
    const Folded& f = folded_[i];
    Folded& above = folded_[f.above];
    const Time start = f.network ? std::max(f.ready, above.entry + f.up_latency) : f.ready;
    above.ready = std::max(above.ready, start + f.up);
  }
  plan_->enter(tree.up, folded_[tree.first].ready);
}

const ClosedTree::Place* ClosedTree::find(uint32_t rank, uint32_t connection) const {
  for (uint32_t lane = lanes_; lane-- > 0;) {
    const Place& p = place(rank, lane);
    if (p.first <= connection) return p.folded == kNone ? &p : nullptr;
  }
  return nullptr;
}

bool ClosedTree::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Place* p = find(rank, connection);
  if (p == nullptr || !plan_->on_real_data(p->reduced, connection - p->first, k, t)) return false;
  settle();
  return true;
}

bool ClosedTree::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const Place* p = find(rank, connection);
  if (p == nullptr || !plan_->on_acknowledged(p->reduced, connection - p->first, k, t)) {
    return false;
  }
  settle();
  return true;
}

bool ClosedTree::next(PlanOutput& out) {
  if (!plan_->next(out)) return false;
  const Reduced& reduced = reduced_[out.rank];
  out.rank = reduced.rank;
  out.connection += reduced.first;
  return true;
}

void ClosedTree::settle() {
  for (uint32_t id; plan_->next_done(id);) {
    const Reduced& reduced = reduced_[id];
    if (reduced.up) continue;
    if (reduced.sub_tree != kNone) {
      end(sub_trees_[reduced.sub_tree]);
    } else {
      done(reduced.rank, plan_->completion(id));
    }
  }
}

/// The last message is on its way down the sub-tree: it follows the one before, a round after the
/// one a window before; these are whole and come as from the first hop. A rank passes it on, and is
/// done, when what it sent on a window before is acknowledged.
void ClosedTree::end(const SubTree& tree) {
  const uint64_t last = tree.messages - 1;
  const auto start = [&](uint64_t k) {
    const Duration wire = k == last ? tree.tail_wire : tree.wire;
    return plan_->acknowledged(tree.above, tree.above_sends, k) - wire - tree.latency * 2;
  };
  for (uint32_t i = tree.first; i < tree.end; ++i) {
    Folded& f = folded_[i];
    if (i == tree.first) {
      f.last = start(last);
      f.before = last >= 1 ? start(last - 1) : kLongBefore;
      f.window = last >= tree.window ? start(last - tree.window) : kLongBefore;
    } else {
      const Folded& above = folded_[f.above];
      f.last = above.last;
      f.before = above.before;
      f.window = above.window;
      if (f.network) f.last = std::max({f.last, f.before + f.wire, f.window + f.round + step_});
    }
    f.last += f.down_tail;
    f.before += f.down_full;
    f.window += f.down_full;
    f.last = std::max(f.last, f.window + f.round_below);
    done(f.rank, f.last);
  }
}

void ClosedTree::done(uint32_t index, Time t) {
  Rank& rank = ranks_[index];
  DEBUG_ASSERT_INVARIANT(!rank.real && rank.left > 0);
  rank.last = std::max(rank.last, t);
  if (--rank.left > 0) return;
  done_.add(index);
}

}  // namespace understudy
