#include "dataplane/node/rank_traffic.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace understudy {

FlowSpec data_flow(const RankTrafficSettings& settings, VertexId from, VertexId to,
                   uint32_t connection) {
  FlowSpec flow;
  flow.priority = settings.priority;
  flow.from = from;
  flow.to = to;
  flow.control = settings.control;
  flow.ect = settings.ect;
  flow.ack_every = settings.ack_every;
  flow.first_header = settings.first_header;
  flow.last_header = settings.last_header;
  flow.connection = connection;
  return flow;
}

FlowSpec credit_flow(const RankTrafficSettings& settings, const FlowSpec& data,
                     uint32_t connection) {
  FlowSpec flow = data;
  std::swap(flow.from, flow.to);
  flow.bytes = settings.credit_bytes;
  flow.control = kNoControl;
  flow.ect = false;
  flow.last_header = 0;
  flow.connection = connection;
  return flow;
}

RankTraffic::RankTraffic(std::vector<RankOperation> operations, const RankTrafficSettings& settings,
                         std::vector<bool> played)
    : operations_(std::move(operations)),
      settings_(settings),
      played_(std::move(played)),
      parts_(operations_.size()) {
  for (uint32_t o = 0; o < operations_.size(); ++o) {
    parts_[o].resize(operations_[o].ranks.size());
    for (uint32_t r = 0; r < operations_[o].ranks.size(); ++r) {
      if (this->played(r)) ++unfinished_;
      part(o, r).ends.resize(connections(o, r).size());
      part(o, r).ways_out = ways_out(*operations_[o].ranks[r]);
      std::map<uint32_t, std::vector<uint32_t>> channels;
      for (uint32_t c = 0; c < connections(o, r).size(); ++c) {
        part(o, r).left += connections(o, r)[c].messages;
        channels[connections(o, r)[c].channel].push_back(c);
        if (connections(o, r)[c].network || !settings_.inside) continue;
        part(o, r).ends[c].way = static_cast<uint32_t>(ways_.size());
        ways_.push_back({0, o, r, c, false});
      }
      for (auto& [channel, members] : channels) {
        for (const uint32_t c : members) {
          part(o, r).ends[c].group = static_cast<uint32_t>(part(o, r).groups.size());
        }
        part(o, r).groups.push_back(std::move(members));
      }
    }
    join_ends(o);
  }
}

void RankTraffic::join_ends(uint32_t operation) {
  std::vector<const RankSchedule*> schedules;
  for (const auto& schedule : operations_[operation].ranks) schedules.push_back(schedule.get());
  const auto ends = far_ends(schedules).value();  // all ranks of one operation
  for (uint32_t r = 0; r < ends.size(); ++r) {
    for (uint32_t c = 0; c < ends[r].size(); ++c) {
      part(operation, r).ends[c].peer_rank = ends[r][c].rank;
      part(operation, r).ends[c].peer = ends[r][c].connection;
    }
  }
}

bool RankTraffic::crosses_network(uint32_t operation, uint32_t rank, uint32_t connection) const {
  const Connection& c = connections(operation, rank)[connection];
  if (c.direction != Direction::kSend || !c.network) return false;
  return played(rank) || played(parts_[operation][rank].ends[connection].peer_rank);
}

uint32_t RankTraffic::add_flows(std::vector<FlowSpec>& flows, const NicOf& nic_of,
                                uint32_t first_connection) {
  first_flow_ = static_cast<uint32_t>(flows.size());
  // Credits have the lower numbers: of what starts at one moment they go first.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>, uint32_t> numbered;
  for (uint32_t o = 0; o < operations_.size(); ++o) {
    for (uint32_t r = 0; r < parts_[o].size(); ++r) {
      for (uint32_t c = 0; c < connections(o, r).size(); ++c) {
        if (!crosses_network(o, r, c)) continue;
        const Connection& connection = connections(o, r)[c];
        numbered.try_emplace({connection.from, connection.to, connection.channel, connection.index},
                             first_connection + static_cast<uint32_t>(numbered.size()));
      }
    }
  }
  const auto pairs = static_cast<uint32_t>(numbered.size());
  for (uint32_t o = 0; o < operations_.size(); ++o) {
    for (uint32_t r = 0; r < parts_[o].size(); ++r) {
      const RankSchedule& schedule = *operations_[o].ranks[r];
      for (uint32_t c = 0; c < connections(o, r).size(); ++c) {
        if (!crosses_network(o, r, c)) continue;
        const Connection& connection = connections(o, r)[c];
        End& end = part(o, r).ends[c];
        const Connection& other = connections(o, end.peer_rank)[end.peer];
        const uint32_t number =
            numbered.at({connection.from, connection.to, connection.channel, connection.index});
        FlowSpec flow = data_flow(settings_, nic_of(r, connection), nic_of(end.peer_rank, other),
                                  number + pairs);
        end.data = static_cast<uint32_t>(flows.size());
        ranges_.push_back({end.data, o, r, c, false});
        for (uint64_t k = 0; k < connection.messages; ++k) {
          flow.bytes = schedule.message(c, k).wire;
          flows.push_back(flow);
        }
        flow = credit_flow(settings_, flow, number);
        end.credits_at = static_cast<uint32_t>(flows.size());
        ranges_.push_back({end.credits_at, o, r, c, true});
        flows.insert(flows.end(), connection.messages, flow);
      }
    }
  }
  end_flow_ = static_cast<uint32_t>(flows.size());
  return first_connection + 2 * pairs;
}

uint32_t RankTraffic::attach(FlowTraffic& traffic, uint32_t first_wake) {
  traffic_ = &traffic;
  traffic.listen(*this);
  for (uint32_t flow = first_flow_; flow < end_flow_; ++flow) traffic.hold(flow);
  first_wake_ = first_wake;
  return way_wake(ways_.size());
}

void RankTraffic::start() {
  clocks_.resize(parts_.empty() ? 0 : parts_[0].size());
  for (uint32_t r = 0; !parts_.empty() && r < parts_[0].size(); ++r) {
    played(r) ? schedule_entry(0, r, Time::zero()) : other_starts(r);
  }
}

Time RankTraffic::completion(size_t operation, uint32_t rank) const {
  return parts_[operation][rank].completion;
}

Time RankTraffic::entry(size_t operation, uint32_t rank) const {
  return parts_[operation][rank].entry;
}

uint32_t RankTraffic::flow_of(size_t operation, uint32_t rank, uint32_t connection,
                              uint64_t k) const {
  return parts_[operation][rank].ends[connection].data + static_cast<uint32_t>(k);
}

const RankTraffic::Range& RankTraffic::range_of(uint32_t flow) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), flow,
                       [](uint32_t value, const Range& range) { return value < range.first; });
  return *(after - 1);
}

void RankTraffic::schedule_entry(uint32_t operation, uint32_t rank, Time done) {
  const std::vector<EntryStep>& steps = operations_[operation].steps;
  const EntryStep step = steps.empty() ? EntryStep() : steps[rank];
  traffic_->wake_listener(clocks_[rank].enter(step, done), entry_wake(operation, rank));
}

void RankTraffic::enter(uint32_t operation, uint32_t rank, Time now) {
  part(operation, rank).entry = now;
  if (part(operation, rank).left == 0) return complete(operation, rank, now);
  cause_ = WaitCause::kEntry;
  for (uint32_t c = 0; c < connections(operation, rank).size(); ++c) {
    const Connection& connection = connections(operation, rank)[c];
    if (connection.direction != Direction::kReceive || !connection.network) continue;
    const uint64_t first = std::min<uint64_t>(connection.window, connection.messages);
    for (uint64_t k = 0; k < first; ++k) grant(operation, rank, c, k, now);
  }
  for (const std::vector<uint32_t>& group : part(operation, rank).groups) {
    settle(operation, rank, group.front(), now);
  }
}

/// The receiving end lets message `k` come.
void RankTraffic::grant(uint32_t operation, uint32_t rank, uint32_t connection, uint64_t k,
                        Time now) {
  const End& receiver = part(operation, rank).ends[connection];
  const End& sender = part(operation, receiver.peer_rank).ends[receiver.peer];
  traffic_->release(sender.credits_at + static_cast<uint32_t>(k), now);
}

void RankTraffic::on_received(uint32_t flow, Time now) {
  if (flow < first_flow_ || flow >= end_flow_) return;
  const Range& range = range_of(flow);
  End& sender = part(range.operation, range.rank).ends[range.connection];
  cause_ = range.credit ? WaitCause::kCredit : WaitCause::kData;
  if (range.credit) {
    ++sender.credits;
    post(range.operation, range.rank, range.connection, now);
  } else if (!played(sender.peer_rank)) {
    other_received(range.operation, sender.peer_rank, sender.peer, now);
  } else if (settings_.step_cost > Duration()) {
    traffic_->wake_listener(now + settings_.step_cost, first_wake_ + (flow - first_flow_));
  } else {
    arrive(range.operation, sender.peer_rank, sender.peer);
    settle(range.operation, sender.peer_rank, sender.peer, now);
  }
}

void RankTraffic::on_acknowledged(uint32_t flow, Time now) {
  if (flow < first_flow_ || flow >= end_flow_) return;
  const Range& range = range_of(flow);
  if (range.credit) return;
  if (!played(range.rank)) {
    return other_acknowledged(range.operation, range.rank, range.connection, now);
  }
  cause_ = WaitCause::kAcknowledgement;
  ++part(range.operation, range.rank).ends[range.connection].acked;
  settle(range.operation, range.rank, range.connection, now);
}

void RankTraffic::on_wake(uint32_t index, Time now) {
  if (index < first_wake_ || index >= way_wake(ways_.size())) return;  // another job's
  if (index >= way_wake(0)) {
    const Range& end = ways_[index - way_wake(0)];
    cause_ = WaitCause::kData;
    hear_inside(end.operation, end.rank, end.connection);
    return settle(end.operation, end.rank, end.connection, now);
  }
  if (index < entry_wake(0, 0)) {
    const Range& range = range_of(first_flow_ + (index - first_wake_));
    const End& sender = part(range.operation, range.rank).ends[range.connection];
    cause_ = WaitCause::kData;
    arrive(range.operation, sender.peer_rank, sender.peer);
    return settle(range.operation, sender.peer_rank, sender.peer, now);
  }
  const uint32_t entry = index - entry_wake(0, 0);
  enter(entry / ranks(), entry % ranks(), now);
}

void RankTraffic::arrive(uint32_t operation, uint32_t rank, uint32_t connection) {
  ++part(operation, rank).ends[connection].arrived;
}

void RankTraffic::other_posts(uint32_t operation, uint32_t rank, uint32_t connection, Time now) {
  ++part(operation, rank).ends[connection].done;
  post(operation, rank, connection, now);
}

/// Filled messages leave as far as there are credits.
void RankTraffic::post(uint32_t operation, uint32_t rank, uint32_t connection, Time now) {
  End& end = part(operation, rank).ends[connection];
  while (end.posted < end.done && end.posted < end.credits) {
    if (recording_) {
      end.moments[end.posted].posted = now;
      end.moments[end.posted].why_posted = cause_;
    }
    traffic_->release(end.data + static_cast<uint32_t>(end.posted++), now);
  }
}

void RankTraffic::look_at(uint32_t operation, uint32_t rank, uint32_t connection) {
  const Look look{rank, part(operation, rank).ends[connection].group};
  if (std::ranges::find(work_, look) == work_.end()) work_.push_back(look);
}

void RankTraffic::settle(uint32_t operation, uint32_t rank, uint32_t connection, Time now) {
  look_at(operation, rank, connection);
  while (!work_.empty()) {
    const Look next = work_.back();
    work_.pop_back();
    while (advance(operation, next.rank, next.group, now)) {
    }
  }
}

/// False if this rank can do nothing on that channel.
bool RankTraffic::advance(uint32_t operation, uint32_t rank, uint32_t group, Time now) {
  Part& p = part(operation, rank);
  if (p.entry.is_never() || p.left == 0) return false;
  const std::vector<Connection>& all = connections(operation, rank);
  const std::vector<uint32_t>& members = p.groups[group];
  bool progress = false;
  for (const uint32_t c : members) {
    const uint32_t joint = all[c].joint;
    if (joint == 0) {
      if (!ready(operation, rank, c)) continue;
      done(operation, rank, c, now);
      progress = true;
      continue;
    }
    // One primitive: all its connections or none; the first of them stands for it.
    bool first = true, can = true;
    for (const uint32_t d : members) {
      if (all[d].joint != joint) continue;
      first = first && d >= c;
      can = can && first && ready(operation, rank, d);
    }
    if (!can) continue;
    for (const uint32_t d : members) {
      if (all[d].joint == joint) done(operation, rank, d, now);
    }
    progress = true;
  }
  if (p.left == 0) complete(operation, rank, now);
  return progress;
}

void RankTraffic::complete(uint32_t operation, uint32_t rank, Time now) {
  part(operation, rank).completion = now;
  --unfinished_;
  if (operation + 1 < operations_.size()) schedule_entry(operation + 1, rank, now);
}

/// Whether the next message of the connection can be done with now.
bool RankTraffic::ready(uint32_t operation, uint32_t rank, uint32_t connection) const {
  const std::vector<End>& ends = parts_[operation][rank].ends;
  const std::vector<Connection>& all = connections(operation, rank);
  const Connection& c = all[connection];
  const End& end = ends[connection];
  if (end.done == c.messages) return false;
  if (c.direction == Direction::kReceive && end.arrived <= end.done) return false;
  if (c.direction == Direction::kSend && end.done >= end.acked + c.window) return false;
  for (const Wait& wait : operations_[operation].ranks[rank]->waits(connection, end.done)) {
    const End& other = ends[wait.connection];
    if (wait.moment == Wait::Moment::kArrival) {
      if (other.arrived <= wait.message) return false;
    } else if (c.joint == 0 || all[wait.connection].joint != c.joint) {
      if (other.done <= wait.message) return false;
    }
  }
  return true;
}

void RankTraffic::done(uint32_t operation, uint32_t rank, uint32_t connection, Time now) {
  const Connection& c = connections(operation, rank)[connection];
  Part& p = part(operation, rank);
  End& end = p.ends[connection];
  const uint64_t k = end.done++;
  --p.left;
  if (c.direction == Direction::kSend) {
    if (recording_) end.moments.push_back({now, Time::never(), cause_, cause_});
    if (c.network) return post(operation, rank, connection, now);
    pass_inside(operation, rank, connection, k, now);
  } else if (!c.network) {
    if (settings_.inside) {
      const uint32_t way = part(operation, end.peer_rank).ends[end.peer].way;
      return traffic_->wake_listener(now + settings_.inside->latency, way_wake(way));
    }
    hear_inside(operation, end.peer_rank, end.peer);
    look_at(operation, end.peer_rank, end.peer);
  } else if (k + c.window < c.messages) {
    grant(operation, rank, connection, k + c.window, now);
  }
}

/// To another rank of the node.
void RankTraffic::pass_inside(uint32_t operation, uint32_t rank, uint32_t connection, uint64_t k,
                              Time now) {
  Part& p = part(operation, rank);
  End& end = p.ends[connection];
  if (settings_.inside) {
    const uint64_t bytes = operations_[operation].ranks[rank]->message(connection, k).wire;
    end.way_free =
        std::max(now, end.way_free) + settings_.inside->rate.time_for(bytes * p.ways_out);
    const uint32_t way = part(operation, end.peer_rank).ends[end.peer].way;
    return traffic_->wake_listener(end.way_free + settings_.inside->latency, way_wake(way));
  }
  hear_inside(operation, end.peer_rank, end.peer);
  look_at(operation, end.peer_rank, end.peer);
}

/// A message has come, or the buffer of one that was sent is free.
void RankTraffic::hear_inside(uint32_t operation, uint32_t rank, uint32_t connection) {
  End& end = part(operation, rank).ends[connection];
  const bool sends = connections(operation, rank)[connection].direction == Direction::kSend;
  ++(sends ? end.acked : end.arrived);
}

}  // namespace understudy
