#include "collective_model/environment.h"

#include <algorithm>
#include <string>
#include <utility>

namespace understudy {

Result<Environment> Environment::make(EnvironmentConfig config) {
  if (config.real.empty()) return fail("plan: real: no rank is real");
  return checked(std::move(config));
}

Result<Environment> Environment::make_ideal(EnvironmentConfig config) {
  config.real.clear();
  return checked(std::move(config));
}

Result<Environment> Environment::checked(EnvironmentConfig config) {
  const size_t n = config.ranks.size();
  const auto wrong = [&](const char* field, size_t found) {
    return fail(std::string("plan: ") + field + ": " + std::to_string(found) + " given for " +
                std::to_string(n) + " ranks");
  };
  for (const uint32_t rank : config.real) {
    if (rank >= n)
      return fail("plan: real: rank " + std::to_string(rank) + " of " + std::to_string(n));
  }
  if (config.hops.size() != n) return wrong("hops", config.hops.size());
  if (config.entry_delay.empty()) config.entry_delay.resize(n);
  if (config.entry_delay.size() != n) return wrong("entry_delay", config.entry_delay.size());
  if (config.wire.mtu == 0) return fail("plan: wire.mtu: must not be 0");
  Environment out(std::move(config));
  if (!out.join_ends()) return fail("plan: ranks: a connection has one end only");
  for (uint32_t r = 0; r < n; ++r) {
    for (uint32_t c = 0; c < out.parts_[r].ends.size(); ++c) {
      const Connection& connection = out.connections(r)[c];
      if (connection.network || out.parts_[r].ends[c].real == out.parts_[r].real) continue;
      return fail("plan: real: ranks " + std::to_string(connection.from) + " and " +
                  std::to_string(connection.to) + " share a node, and one of them is not real");
    }
  }
  return out;
}

Environment::Environment(EnvironmentConfig config)
    : config_(std::move(config)), parts_(config_.ranks.size()) {
  for (const uint32_t rank : config_.real) parts_[rank].real = true;
  for (uint32_t r = 0; r < parts_.size(); ++r) {
    Part& part = parts_[r];
    part.ends.resize(connections(r).size());
    for (uint32_t c = 0; c < part.ends.size(); ++c) {
      const Connection& connection = connections(r)[c];
      if (part.real) continue;
      part.ends[c].done.reserve(connection.messages);
      if (connection.direction == Direction::kReceive) {
        part.ends[c].arrival.reserve(connection.messages);
      } else {
        part.ends[c].acked.reserve(connection.messages);
        part.ends[c].credit.reserve(connection.messages);
      }
    }
  }
  done_.reserve(parts_.size());
  begin();
}

/// False if a connection has one end only.
bool Environment::join_ends() {
  std::vector<const RankSchedule*> schedules;
  for (const auto& schedule : config_.ranks) schedules.push_back(schedule.get());
  const auto ends = far_ends(schedules);
  if (!ends) return false;
  for (uint32_t r = 0; r < parts_.size(); ++r) {
    for (uint32_t c = 0; c < parts_[r].ends.size(); ++c) {
      const FarEnd& far = (*ends)[r][c];
      parts_[r].ends[c].peer_rank = far.rank;
      parts_[r].ends[c].peer = far.connection;
      parts_[r].ends[c].real = parts_[far.rank].real;
    }
  }
  return true;
}

void Environment::start(Time entry) {
  begin();
  for (uint32_t r = 0; r < parts_.size(); ++r) {
    if (!parts_[r].real) enter(r, entry + config_.entry_delay[r]);
  }
}

void Environment::begin() {
  unfinished_ = 0;
  done_.clear();
  done_taken_ = 0;
  for (uint32_t r = 0; r < parts_.size(); ++r) {
    Part& part = parts_[r];
    part.entry = Time::never();
    part.left = 0;
    if (!part.real) ++unfinished_;
    for (uint32_t c = 0; c < part.ends.size(); ++c) {
      End& end = part.ends[c];
      part.left += connections(r)[c].messages;
      for (std::vector<Time>* times : {&end.done, &end.arrival, &end.acked, &end.credit}) {
        times->clear();
      }
      end.sent = 0;
    }
  }
}

void Environment::enter(uint32_t rank, Time entry) {
  Part& part = parts_[rank];
  part.last = part.entry = entry;
  if (part.left == 0) complete(rank);
  for (uint32_t c = 0; c < part.ends.size(); ++c) {
    part.ends[c].wire_free = entry;
    const Connection& connection = connections(rank)[c];
    if (connection.direction != Direction::kReceive || !connection.network) continue;
    const uint64_t first = std::min<uint64_t>(connection.window, connection.messages);
    for (uint64_t k = 0; k < first; ++k) grant(rank, c, k, entry);
  }
  wake(rank);
  settle();
}

void Environment::complete(uint32_t rank) {
  --unfinished_;
  done_.push_back(rank);
}

bool Environment::next_done(uint32_t& rank) {
  if (done_taken_ == done_.size()) return false;
  rank = done_[done_taken_++];
  return true;
}

bool Environment::on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  End& end = parts_[rank].ends[connection];
  if (!end.real || k != end.arrival.size() || k >= connections(rank)[connection].messages) {
    return false;
  }
  end.arrival.push_back(t +
                        (connections(rank)[connection].network ? config_.step_cost : Duration()));
  wake(rank);
  settle();
  return true;
}

bool Environment::on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  End& end = parts_[rank].ends[connection];
  if (!end.real || k < end.acked.size() || k >= end.done.size()) return false;
  end.acked.resize(k + 1, t);
  wake(rank);
  settle();
  return true;
}

bool Environment::next(EnvironmentOutput& out) {
  if (taken_ == outputs_.size()) return false;
  out = outputs_[taken_++];
  if (taken_ == outputs_.size()) {
    outputs_.clear();
    taken_ = 0;
  }
  return true;
}

void Environment::wake(uint32_t rank) {
  if (parts_[rank].queued || parts_[rank].real) return;
  parts_[rank].queued = true;
  work_.push_back(rank);
}

void Environment::settle() {
  while (!work_.empty()) {
    const uint32_t rank = work_.back();
    work_.pop_back();
    parts_[rank].queued = false;
    advance(rank);
  }
}

void Environment::advance(uint32_t rank) {
  Part& part = parts_[rank];
  const std::vector<Connection>& all = connections(rank);
  for (bool moved = true; moved && part.left > 0;) {
    moved = false;
    for (uint32_t c = 0; c < all.size(); ++c) {
      Time t = ready(rank, c);
      if (t.is_never()) continue;
      const uint32_t joint = all[c].joint;
      if (joint == 0) {
        done(rank, c, t);
        moved = true;
        continue;
      }
      // One primitive: all its connections or none; the first of them stands for it.
      bool can = true;
      for (uint32_t d = 0; d < all.size() && can; ++d) {
        if (all[d].joint != joint) continue;
        const Time other = d < c ? Time::never() : ready(rank, d);
        can = !other.is_never();
        t = std::max(t, other);
      }
      if (!can) continue;
      for (uint32_t d = c; d < all.size(); ++d) {
        if (all[d].joint == joint) done(rank, d, t);
      }
      moved = true;
    }
  }
}

Time Environment::ready(uint32_t rank, uint32_t connection) const {
  const Part& part = parts_[rank];
  const Connection& c = connections(rank)[connection];
  const End& end = part.ends[connection];
  const uint64_t k = end.done.size();
  if (k == c.messages || part.entry.is_never()) return Time::never();
  Time t = k == 0 ? part.entry : end.done.back();
  if (c.direction == Direction::kReceive) {
    if (end.arrival.size() <= k) return Time::never();
    t = std::max(t, end.arrival[k]);
  } else if (k >= c.window) {
    if (end.acked.size() <= k - c.window) return Time::never();
    t = std::max(t, end.acked[k - c.window]);
  }
  for (const Wait& wait : config_.ranks[rank]->waits(connection, k)) {
    const bool joint = c.joint != 0 && connections(rank)[wait.connection].joint == c.joint;
    const bool arrival = wait.moment == Wait::Moment::kArrival;
    if (joint && !arrival) continue;
    const std::vector<Time>& known =
        arrival ? part.ends[wait.connection].arrival : part.ends[wait.connection].done;
    if (known.size() <= wait.message) return Time::never();
    t = std::max(t, known[wait.message]);
  }
  return t;
}

void Environment::done(uint32_t rank, uint32_t connection, Time t) {
  Part& part = parts_[rank];
  End& end = part.ends[connection];
  const Connection& c = connections(rank)[connection];
  const uint64_t k = end.done.size();
  end.done.push_back(t);
  part.last = std::max(part.last, t);
  if (--part.left == 0) complete(rank);
  if (c.direction == Direction::kSend) {
    if (end.real) {
      emit(EnvironmentOutput::Kind::kData, rank, connection, k, t);
    } else if (c.network) {
      send(rank, connection);
    } else {
      parts_[end.peer_rank].ends[end.peer].arrival.push_back(t);
      wake(end.peer_rank);
    }
  } else if (!c.network) {
    if (!end.real) {
      parts_[end.peer_rank].ends[end.peer].acked.push_back(t);
      wake(end.peer_rank);
    }
  } else if (k + c.window < c.messages) {
    grant(rank, connection, k + c.window, t);
  }
}

/// All whose start is known now: between emulated ranks the acknowledgement is known with it.
void Environment::send(uint32_t rank, uint32_t connection) {
  End& end = parts_[rank].ends[connection];
  const RingHop& hop = config_.hops[rank][connection];
  End& receiver = parts_[end.peer_rank].ends[end.peer];
  while (end.sent < end.done.size() && end.sent < end.credit.size()) {
    const uint64_t k = end.sent++;
    const Time start = std::max({end.done[k], end.wire_free, end.credit[k]});
    const uint32_t size = config_.ranks[rank]->message(connection, k).wire;
    end.wire_free = start + hop.rate.time_for(config_.wire.bytes(size));
    end.acked.push_back(end.wire_free + hop.latency * 2);
    receiver.arrival.push_back(end.wire_free + hop.latency + config_.step_cost);
  }
  wake(rank);
  wake(end.peer_rank);
}

void Environment::grant(uint32_t rank, uint32_t connection, uint64_t k, Time t) {
  const End& end = parts_[rank].ends[connection];
  if (end.real) return emit(EnvironmentOutput::Kind::kCredit, rank, connection, k, t);
  End& sender = parts_[end.peer_rank].ends[end.peer];
  sender.credit.push_back(t + config_.hops[end.peer_rank][end.peer].latency);
  send(end.peer_rank, end.peer);
}

void Environment::emit(EnvironmentOutput::Kind kind, uint32_t rank, uint32_t connection, uint64_t k,
                       Time t) {
  outputs_.push_back({kind, rank, connection, k, t});
}

}  // namespace understudy
