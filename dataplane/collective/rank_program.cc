#include "dataplane/collective/rank_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

RankPart::RankPart(const RankSchedule& schedule, std::vector<FarEnd> far, Order order)
    : schedule_(&schedule), far_(std::move(far)), ways_out_(understudy::ways_out(schedule)) {
  const std::vector<Connection>& all = schedule.connections();
  ASSERT_INVARIANT(far_.size() == all.size());
  std::map<uint32_t, std::vector<uint32_t>> channels;
  for (uint32_t c = 0; c < all.size(); ++c) {
    messages_ += all[c].messages;
    channels[order == Order::kByChannel ? all[c].channel : 0].push_back(c);
  }
  group_of_.resize(all.size());
  for (auto& [channel, members] : channels) {
    for (const uint32_t c : members) group_of_[c] = static_cast<uint32_t>(groups_.size());
    groups_.push_back(std::move(members));
  }
}

RankProgram::RankProgram(RankProgramOwner& owner, uint32_t ranks, uint32_t slots,
                         const std::optional<NodeWay>& inside)
    : owner_(owner),
      ranks_(ranks),
      slots_(slots),
      inside_(inside),
      states_(size_t{ranks} * slots) {}

void RankProgram::reserve(uint32_t rank, const RankPart& part) {
  ASSERT_INVARIANT(rank < ranks_);
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    state(slot, rank).ends.reserve(part.connections().size());
  }
  work_.reserve(std::max(work_.capacity(), ranks_ * part.groups().size()));
}

void RankProgram::begin(uint32_t operation, uint32_t rank, const RankPart& part) {
  DEBUG_ASSERT_INVARIANT(rank < ranks_ && slots_ > 0);
  State& s = state(operation, rank);
  DEBUG_ASSERT_INVARIANT(s.left == 0);  // the operation before it in the slot is over
  s.part = &part;
  s.ends.assign(part.connections().size(), End{});
  s.left = part.messages();
  s.inside = false;
}

void RankProgram::enter(uint32_t operation, uint32_t rank, Time now) {
  State& s = state(operation, rank);
  DEBUG_ASSERT_INVARIANT(s.part != nullptr && !s.inside);
  s.inside = true;
  if (s.left == 0) return owner_.on_done(operation, rank, now);
  const std::vector<Connection>& all = s.part->connections();
  for (uint32_t c = 0; c < all.size(); ++c) {
    if (all[c].direction != Direction::kReceive || !all[c].network) continue;
    const uint64_t first = std::min<uint64_t>(all[c].window, all[c].messages);
    for (uint64_t k = 0; k < first; ++k) owner_.on_grantable({operation, rank, c}, k, now);
  }
  for (uint32_t group = 0; group < s.part->groups().size(); ++group) {
    look_at(rank, group);
    settle(operation, now);
  }
}

void RankProgram::arrived(const RankEnd& receiver, Time now) {
  State& s = state(receiver.operation, receiver.rank);
  DEBUG_ASSERT_INVARIANT(s.part->connections()[receiver.connection].direction ==
                         Direction::kReceive);
  ++s.ends[receiver.connection].arrived;
  settle(receiver, now);
}

void RankProgram::acknowledged(const RankEnd& sender, Time now) {
  State& s = state(sender.operation, sender.rank);
  DEBUG_ASSERT_INVARIANT(s.part->connections()[sender.connection].direction == Direction::kSend);
  End& end = s.ends[sender.connection];
  ++end.acked;
  DEBUG_ASSERT_INVARIANT(end.acked <= end.done);
  settle(sender, now);
}

void RankProgram::passed(const RankEnd& end, Time now) {
  hear_inside(end);
  settle(end, now);
}

void RankProgram::look_at(uint32_t rank, uint32_t group) {
  const Look look{rank, group};
  if (std::ranges::find(work_, look) == work_.end()) work_.push_back(look);
}

void RankProgram::settle(const RankEnd& end, Time now) {
  look_at(end.rank, state(end.operation, end.rank).part->group_of(end.connection));
  settle(end.operation, now);
}

/// Does all that can be done now, on the ranks in work_ and on those of their node that hear of it.
void RankProgram::settle(uint32_t operation, Time now) {
  while (!work_.empty()) {
    const Look next = work_.back();
    work_.pop_back();
    while (advance(operation, next, now)) {
    }
  }
}

/// False if the group can do nothing more.
bool RankProgram::advance(uint32_t operation, const Look& look, Time now) {
  State& s = state(operation, look.rank);
  if (!s.inside || s.left == 0) return false;
  const std::vector<Connection>& all = s.part->connections();
  const std::vector<uint32_t>& members = s.part->groups()[look.group];
  bool progress = false;
  for (const uint32_t c : members) {
    const uint32_t joint = all[c].joint;
    if (joint == 0) {
      if (!ready(s, c)) continue;
      finish({operation, look.rank, c}, now);
    } else {
      if (!joint_ready(s, members, c)) continue;
      for (const uint32_t d : members) {
        if (all[d].joint == joint) finish({operation, look.rank, d}, now);
      }
    }
    progress = true;
  }
  if (s.left == 0) owner_.on_done(operation, look.rank, now);
  return progress && s.left > 0;
}

/// Whether one primitive can serve all connections of the joint that `connection` is the first of.
/// False for the others: the first one stands for them.
bool RankProgram::joint_ready(const State& s, std::span<const uint32_t> members,
                              uint32_t connection) {
  const std::vector<Connection>& all = s.part->connections();
  for (const uint32_t d : members) {
    if (all[d].joint != all[connection].joint) continue;
    if (d < connection || !ready(s, d)) return false;
  }
  return true;
}

/// Whether the kernel can be done with the next message of the connection.
bool RankProgram::ready(const State& s, uint32_t connection) {
  const std::vector<Connection>& all = s.part->connections();
  const Connection& c = all[connection];
  const End& end = s.ends[connection];
  if (end.done == c.messages) return false;
  if (c.direction == Direction::kReceive && end.arrived <= end.done) return false;
  if (c.direction == Direction::kSend && end.done >= end.acked + c.window) return false;
  for (const Wait& wait : s.part->schedule().waits(connection, end.done)) {
    const End& other = s.ends[wait.connection];
    if (wait.moment == Wait::Moment::kArrival) {
      if (other.arrived <= wait.message) return false;
    } else if (c.joint == 0 || all[wait.connection].joint != c.joint) {
      if (other.done <= wait.message) return false;
    }
  }
  return true;
}

/// The kernel is done with the next message of the connection.
void RankProgram::finish(const RankEnd& end, Time now) {
  State& s = state(end.operation, end.rank);
  const Connection& c = s.part->connections()[end.connection];
  DEBUG_ASSERT_INVARIANT(s.left > 0 && s.ends[end.connection].done < c.messages);
  const uint64_t k = s.ends[end.connection].done++;
  --s.left;
  if (c.direction == Direction::kSend) {
    owner_.on_filled(end, k, now);
  } else {
    owner_.on_used(end, k);
  }
  if (!c.network) return pass_inside(end, k, now);
  if (c.direction == Direction::kReceive && k + c.window < c.messages) {
    owner_.on_grantable(end, k + c.window, now);
  }
}

/// Another rank of the node hears of the message, or that its buffer is free.
void RankProgram::pass_inside(const RankEnd& end, uint64_t k, Time now) {
  State& s = state(end.operation, end.rank);
  const FarEnd& far = s.part->far(end.connection);
  const RankEnd to{end.operation, far.rank, far.connection};
  if (!inside_) {
    hear_inside(to);
    return look_at(to.rank, state(to.operation, to.rank).part->group_of(to.connection));
  }
  Time at = now;
  if (s.part->connections()[end.connection].direction == Direction::kSend) {
    const uint64_t bytes = s.part->schedule().message(end.connection, k).wire;
    Time& free = s.ends[end.connection].way_free;
    const Connection& way = s.part->connections()[end.connection];
    free = std::max(now, free) + inside_->time_for(way, bytes, s.part->ways_out());
    at = free;
  }
  owner_.on_passing(to, at + inside_->latency);
}

void RankProgram::hear_inside(const RankEnd& end) {
  State& s = state(end.operation, end.rank);
  DEBUG_ASSERT_INVARIANT(s.part != nullptr && !s.part->connections()[end.connection].network);
  End& e = s.ends[end.connection];
  const bool sends = s.part->connections()[end.connection].direction == Direction::kSend;
  ++(sends ? e.acked : e.arrived);
}

}  // namespace understudy
