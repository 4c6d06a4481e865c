#include "collective_model/plan/general_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <utility>

#include "collective_model/plan/plan_check.h"
#include "dataplane/base/assert.h"

namespace understudy {

Result<GeneralPlan> GeneralPlan::make(PlanInput config) {
  if (config.real.empty()) return fail("plan: real: no rank is real");
  return checked(std::move(config));
}

Result<GeneralPlan> GeneralPlan::make_ideal(PlanInput config) {
  config.real.clear();
  config.carried.clear();
  return checked(std::move(config));
}

Result<GeneralPlan> GeneralPlan::checked(PlanInput config) {
  const size_t n = config.ranks.size();
  const auto wrong = [&](const char* field, size_t found) {
    return fail(std::string("plan: ") + field + ": " + std::to_string(found) + " given for " +
                std::to_string(n) + " ranks");
  };
  if (auto fits = check_plan_input(config, static_cast<uint32_t>(n)); !fits) {
    return tl::unexpected(fits.error());
  }
  if (config.hops.size() != n) return wrong("hops", config.hops.size());
  if (config.entry_delay.empty()) config.entry_delay.resize(n);
  if (!config.carried.empty() && config.carried.size() != n) {
    return wrong("carried", config.carried.size());
  }
  GeneralPlan out(std::move(config));
  if (!out.join_ends()) return fail("plan: ranks: a connection has one end only");
  for (const End& end : out.ends_) {
    if (end.network || out.parts_[out.ends_[end.peer].rank].real == out.parts_[end.rank].real) {
      continue;
    }
    const Connection& connection = out.connections(end.rank)[end.connection];
    return mixed_node(connection.from, connection.to);
  }
  ASSERT_INVARIANT(out.parts_.size() == n + 1);
  out.make_groups();
  out.make_times();
  out.begin();
  return out;
}

GeneralPlan::GeneralPlan(PlanInput config)
    : config_(std::move(config)), parts_(config_.ranks.size() + 1) {
  const auto n = static_cast<uint32_t>(config_.ranks.size());
  for (const uint32_t rank : config_.real) parts_[rank].real = true;
  for (uint32_t r = 0; r < n; ++r) {
    parts_[r].ways_out = ways_out(*config_.ranks[r]);
    parts_[r + 1].first_end = parts_[r].first_end + static_cast<uint32_t>(connections(r).size());
  }
  ends_.resize(parts_[n].first_end);
  for (uint32_t r = 0; r < n; ++r) {
    for (uint32_t c = 0; c < connections(r).size(); ++c) {
      const Connection& connection = connections(r)[c];
      End& end = ends_[parts_[r].first_end + c];
      end.rank = r;
      end.connection = c;
      end.joint = connection.joint;
      end.window = connection.window;
      end.sends = connection.direction == Direction::kSend;
      end.network = connection.network;
      end.messages = connection.messages;
      if (end.sends && end.network && c < config_.hops[r].size()) {
        end.hop = config_.hops[r][c];
      }
    }
  }
  done_.reserve(n);
  config_.hops = {};
}

/// False if a connection has one end only.
bool GeneralPlan::join_ends() {
  std::vector<const RankSchedule*> schedules;
  for (const auto& schedule : config_.ranks) schedules.push_back(schedule.get());
  const auto ends = far_ends(schedules);
  if (!ends) return false;
  for (End& end : ends_) {
    const FarEnd& far = (*ends)[end.rank][end.connection];
    end.peer = parts_[far.rank].first_end + far.connection;
    const bool carried =
        !config_.carried.empty() && config_.carried[end.rank][end.connection] && end.network;
    end.real = carried || parts_[far.rank].real;
  }
  return true;
}

void GeneralPlan::make_groups() {
  members_.resize(ends_.size());
  std::iota(members_.begin(), members_.end(), 0u);
  const auto channel = [&](uint32_t i) {
    return connections(ends_[i].rank)[ends_[i].connection].channel;
  };
  for (uint32_t r = 0; r + 1 < parts_.size(); ++r) {
    std::stable_sort(members_.begin() + parts_[r].first_end,
                     members_.begin() + parts_[r + 1].first_end,
                     [&](uint32_t a, uint32_t b) { return channel(a) < channel(b); });
    parts_[r].first_group = static_cast<uint32_t>(groups_.size());
    for (uint32_t m = parts_[r].first_end; m < parts_[r + 1].first_end; ++m) {
      if (m == parts_[r].first_end || channel(members_[m]) != channel(members_[m - 1])) {
        groups_.push_back({r, m, m, false});
      }
      groups_.back().end = m + 1;
      ends_[members_[m]].group = static_cast<uint32_t>(groups_.size()) - 1;
    }
  }
  for (const Group& group : groups_) {
    for (uint32_t m = group.first; m < group.end; ++m) {
      End& end = ends_[members_[m]];
      end.alone = true;
      for (uint32_t d = group.first; d < group.end && end.joint != 0; ++d) {
        if (d == m || ends_[members_[d]].joint != end.joint) continue;
        end.alone = false;
        end.follows |= d < m;
      }
    }
  }
  parts_.back().first_group = static_cast<uint32_t>(groups_.size());
  work_.reserve(groups_.size());
}

void GeneralPlan::make_times() {
  uint64_t total = 0, outputs = 0;
  for (End& end : ends_) {
    if (parts_[end.rank].real) continue;
    // A message's moments are within a window of one another; a wait may name one that is as many
    // slices older or younger.
    const uint64_t kept = config_.ranks[end.rank]->names_old_messages()
                              ? end.messages
                              : std::min<uint64_t>(end.messages, uint64_t{end.window} * 2);
    const uint64_t size = std::bit_ceil(std::max<uint64_t>(kept, 1));
    const auto reserve = [&](Times& times) {
      times.first = static_cast<uint32_t>(total);
      times.mask = static_cast<uint32_t>(size - 1);
      total += size;
    };
    reserve(end.done);
    if (end.sends) {
      reserve(end.acked);
      if (end.network) reserve(end.credit);
    } else {
      reserve(end.arrival);
    }
    if (end.real) outputs += end.window;
  }
  times_.resize(total);
  outputs_.resize(outputs);
}

void GeneralPlan::start(Time entry) {
  begin();
  for (uint32_t r = 0; r + 1 < parts_.size(); ++r) {
    if (!parts_[r].real) enter(r, entry + config_.entry_delay[r]);
  }
}

void GeneralPlan::begin() {
  outputs_.clear();
  for (Part& part : parts_) {
    part.entry = Time::never();
    part.left = 0;
  }
  size_t emulated = 0;
  for (uint32_t r = 0; r + 1 < parts_.size(); ++r) emulated += parts_[r].real ? 0 : 1;
  done_.begin(emulated);
  for (End& end : ends_) {
    parts_[end.rank].left += end.messages;
    for (Times* times : {&end.done, &end.arrival, &end.acked, &end.credit}) times->size = 0;
    end.sent = end.taken = end.alternates = 0;
    end.missing = nullptr;
    end.ready = Time::never();
  }
}

void GeneralPlan::enter(uint32_t rank, Time entry) {
  Part& part = parts_[rank];
  DEBUG_ASSERT_INVARIANT(!part.real && part.entry.is_never());
  part.last = part.entry = entry;
  if (part.left == 0) done_.add(rank);
  for (uint32_t i = part.first_end; i < parts_[rank + 1].first_end; ++i) {
    End& end = ends_[i];
    end.wire_free = entry;
    if (end.sends || !end.network) continue;
    const uint64_t first = std::min<uint64_t>(end.window, end.messages);
    for (uint64_t k = 0; k < first; ++k) grant(end, k, entry);
  }
  for (uint32_t g = parts_[rank + 1].first_group; g-- > part.first_group;) wake(g);
  settle();
}

bool GeneralPlan::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  End& end = ends_[parts_[rank].first_end + connection];
  if (!end.real || k != end.arrival.size || k >= end.messages) return false;
  if (end.network && k >= end.taken) return false;
  push(end.arrival, t + (end.network ? config_.step_cost : Duration()));
  wake(end.group);
  settle();
  return true;
}

bool GeneralPlan::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  End& end = ends_[parts_[rank].first_end + connection];
  if (!end.real || k < end.acked.size || k >= end.taken) return false;
  while (end.acked.size <= k) push(end.acked, t);
  wake(end.group);
  settle();
  return true;
}

bool GeneralPlan::next(PlanOutput& out) {
  if (outputs_.empty()) return false;
  out = outputs_.front();
  outputs_.pop();
  ++ends_[parts_[out.rank].first_end + out.connection].taken;
  return true;
}

void GeneralPlan::wake(uint32_t group) {
  if (groups_[group].queued || parts_[groups_[group].rank].real) return;
  groups_[group].queued = true;
  work_.push_back(group);
}

void GeneralPlan::settle() {
  while (!work_.empty()) {
    Group& group = groups_[work_.back()];
    work_.pop_back();
    group.queued = false;
    advance(group);
  }
}

void GeneralPlan::advance(const Group& group) {
  if (parts_[group.rank].entry.is_never()) return;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t m = group.first; m < group.end; ++m) {
      End& end = ends_[members_[m]];
      if (end.follows || waits(end)) continue;
      Time t = ready(end);
      if (t.is_never()) continue;
      if (end.alone) {
        done(end, t);
        moved = true;
        continue;
      }
      // One primitive: all its connections or none; the first of them stands for it.
      bool can = true;
      for (uint32_t d = m + 1; d < group.end && can; ++d) {
        End& other = ends_[members_[d]];
        if (other.joint != end.joint) continue;
        can = !waits(other) && !ready(other).is_never();
        t = std::max(t, other.ready);
      }
      if (!can) continue;
      for (uint32_t d = m; d < group.end; ++d) {
        if (ends_[members_[d]].joint == end.joint) done(ends_[members_[d]], t);
      }
      moved = true;
    }
  }
}

Time GeneralPlan::ready(End& end) {
  if (!end.ready.is_never()) return end.ready;
  if (waits(end)) return Time::never();
  end.missing = nullptr;
  const Part& part = parts_[end.rank];
  const uint64_t k = end.done.size;
  if (k == end.messages) return Time::never();
  Time t = k == 0 ? part.entry : at(end.done, k - 1);
  if (!end.sends) {
    if (misses(end, end.arrival, k)) return Time::never();
    t = std::max(t, at(end.arrival, k));
  } else if (k >= end.window) {
    if (misses(end, end.acked, k - end.window)) return Time::never();
    t = std::max(t, at(end.acked, k - end.window));
  }
  for (const Wait& wait : config_.ranks[end.rank]->waits(end.connection, k)) {
    const End& other = ends_[part.first_end + wait.connection];
    const bool joint = end.joint != 0 && other.joint == end.joint;
    const bool arrival = wait.moment == Wait::Moment::kArrival;
    if (joint && !arrival) continue;
    const Times& known = arrival ? other.arrival : other.done;
    if (misses(end, known, wait.message)) return Time::never();
    t = std::max(t, at(known, wait.message));
  }
  end.ready = t;
  return t;
}

void GeneralPlan::done(End& end, Time t) {
  Part& part = parts_[end.rank];
  DEBUG_ASSERT_INVARIANT(part.left > 0 && end.done.size < end.messages);
  const uint64_t k = end.done.size;
  push(end.done, t);
  end.ready = Time::never();
  part.last = std::max(part.last, t);
  if (--part.left == 0) done_.add(end.rank);
  if (end.sends) {
    if (end.real) {
      emit(PlanOutput::Kind::kData, end, k, t);
    } else if (end.network) {
      send(end);
    } else {
      pass_inside(end, k, t);
    }
  } else if (!end.network) {
    if (!end.real) {
      push(ends_[end.peer].acked, config_.inside ? t + config_.inside->latency : t);
      wake(ends_[end.peer].group);
    }
  } else if (k + end.window < end.messages) {
    grant(end, k + end.window, t);
  }
}

/// To another rank of the node.
void GeneralPlan::pass_inside(End& end, uint64_t k, Time t) {
  if (config_.inside) {
    const uint64_t bytes = config_.ranks[end.rank]->message(end.connection, k).wire;
    const Connection& way = config_.ranks[end.rank]->connections()[end.connection];
    end.wire_free = std::max(t, end.wire_free) +
                    config_.inside->time_for(way, bytes, parts_[end.rank].ways_out);
    t = end.wire_free + config_.inside->latency;
  }
  push(ends_[end.peer].arrival, t);
  wake(ends_[end.peer].group);
}

/// All whose start is known now: between emulated ranks the acknowledgement is known with it.
void GeneralPlan::send(End& end) {
  if (end.sent == end.done.size || end.sent == end.credit.size) return;
  End& receiver = ends_[end.peer];
  while (end.sent < end.done.size && end.sent < end.credit.size) {
    const uint64_t k = end.sent++;
    const Time start = std::max({at(end.done, k), end.wire_free, at(end.credit, k)});
    end.wire_free = start + wire_time(end, k);
    push(end.acked, end.wire_free + end.hop.round_trip());
    push(receiver.arrival, end.wire_free + end.hop.latency + config_.step_cost);
  }
  wake(end.group);
  wake(receiver.group);
}

Duration GeneralPlan::wire_time(End& end, uint64_t k) {
  if (k < end.alternates) return end.wire_time[k & 1];
  const RankSchedule& schedule = *config_.ranks[end.rank];
  end.alternates = schedule.alternates_until(end.connection, k);
  for (const uint64_t i : {k, k + 1}) {
    if (i >= end.alternates) continue;
    const uint32_t size = schedule.message(end.connection, i).wire;
    end.wire_time[i & 1] = end.hop.time_for(config_.wire, size);
  }
  return end.wire_time[k & 1];
}

void GeneralPlan::grant(End& end, uint64_t k, Time t) {
  if (end.real) return emit(PlanOutput::Kind::kCredit, end, k, t);
  End& sender = ends_[end.peer];
  push(sender.credit, t + sender.hop.credit_latency());
  send(sender);
}

void GeneralPlan::emit(PlanOutput::Kind kind, const End& end, uint64_t k, Time t) {
  DEBUG_ASSERT_INVARIANT(end.real && !parts_[end.rank].real);
  outputs_.push({kind, end.rank, end.connection, k, t});
}

}  // namespace understudy
