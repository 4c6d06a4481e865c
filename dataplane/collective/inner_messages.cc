#include "dataplane/collective/inner_messages.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

InnerMessages::InnerMessages(std::vector<InnerConnection> connections,
                             const PacketLevelRanksSettings& settings)
    : connections_(std::move(connections)), settings_(settings), ends_(connections_.size()) {}

uint32_t InnerMessages::add_flows(std::vector<FlowSpec>& flows, uint32_t first_connection) {
  first_flow_ = static_cast<uint32_t>(flows.size());
  uint32_t credit = first_connection, data = credit;
  for (const InnerConnection& connection : connections_) data += connection.ways.credits;
  for (uint32_t i = 0; i < connections_.size(); ++i) {
    const MessageWays& ways = connections_[i].ways;
    ASSERT_INVARIANT(ways.credits > 0 && ways.credits <= ways.count);
    Ends& ends = ends_[i];
    ends.parts = ways.count;
    for (uint32_t part = 0; part < ways.count; ++part) {
      add_lane(flows, data_flow(settings_, ways.part(part), data++), i);
    }
    for (uint32_t way = 0; way < ways.credits; ++way) {
      const FlowSpec flow = data_flow(settings_, ways.all[way], 0);
      add_lane(flows, credit_flow(settings_, flow, credit++), i);
    }
    make_split(ends);
  }
  posted_.resize(owners_.size());
  stale_.resize(owners_.size());
  carried_.resize(owners_.size());
  arrived_.resize(owners_.size());
  return data;
}

void InnerMessages::make_split(Ends& ends) const {
  if (ends.parts == 1) return;
  const uint64_t window = uint64_t{2} * ends.lanes[0].count;  // lanes are not in step
  ends.split = std::make_unique<Split>(Split{{},
                                             WholeMessages(ends.parts, window),
                                             WholeMessages(ends.parts, window),
                                             WholeMessages(1, window)});
}

/// Two windows: an operation's first messages may leave while the last ones of the one before are
/// not acknowledged yet.
void InnerMessages::add_lane(std::vector<FlowSpec>& flows, const FlowSpec& flow,
                             uint32_t connection) {
  std::vector<Lane>& lanes = ends_[connection].lanes;
  const Owner owner{connection, static_cast<uint32_t>(lanes.size())};
  Lane& lane = lanes.emplace_back();
  lane.first = static_cast<uint32_t>(flows.size());
  lane.count = 2 * std::max(1u, connections_[connection].window);
  flows.insert(flows.end(), lane.count, flow);
  owners_.insert(owners_.end(), lane.count, owner);
}

void InnerMessages::attach(FlowTraffic& traffic, bool at_once) {
  at_once_ = at_once;
  traffic_ = &traffic;
  traffic.listen(*this);
  for (uint32_t i = 0; i < owners_.size(); ++i) traffic.lend(first_flow_ + i);
}

void InnerMessages::post(uint32_t connection, uint64_t bytes, Time now) {
  ++counters_.messages;
  counters_.bytes += bytes;
  Ends& ends = ends_[connection];
  if (ends.split == nullptr) {
    wait(ends.lanes[0], {bytes, 0});
  } else {
    ends.split->waiting.push_back(bytes);
  }
  send_data(ends, now);
}

void InnerMessages::grant(uint32_t connection, Time now) {
  Ends& ends = ends_[connection];
  const size_t turns = ends.lanes.size() - ends.parts;
  const auto turn = static_cast<uint32_t>(turns == 1 ? 0 : ends.granted % turns);
  Lane& lane = ends.lanes[lane_for(ends, ends.parts + turn)];
  wait(lane, {settings_.credit_bytes, ends.granted++});
  leave_all(lane, now);
}

void InnerMessages::forget(Time now) {
  for (uint32_t i = 0; i < owners_.size(); ++i) {
    if (posted_[i]) reach(first_flow_ + i, now);
    stale_[i] = !traffic_->idle(first_flow_ + i);
  }
  for (Ends& ends : ends_) {
    ends.may_leave = ends.granted = ends.cut = 0;
    for (Lane& lane : ends.lanes) {
      lane.left = 0;
      lane.waiting.clear();
      lane.waiting_at = 0;
    }
    make_split(ends);
  }
}

void InnerMessages::close() {
  if (kept_open_) return;
  closed_ = true;
  for (uint32_t i = 0; i < owners_.size(); ++i) {
    if (ends_[owners_[i].connection].lanes[owners_[i].lane].failed) continue;  // they are over
    if (traffic_->idle(first_flow_ + i)) traffic_->close(first_flow_ + i);
  }
}

void InnerMessages::wait(Lane& lane, const Piece& piece) {
  if (lane.waiting_at == lane.waiting.size()) {
    lane.waiting.clear();
    lane.waiting_at = 0;
  } else if (lane.waiting_at >= lane.count) {
    lane.waiting.erase(lane.waiting.begin(),
                       lane.waiting.begin() + static_cast<ptrdiff_t>(lane.waiting_at));
    lane.waiting_at = 0;
  }
  lane.waiting.push_back(piece);
}

/// The first one that waits, if there is one and its flow is free.
bool InnerMessages::leave(Lane& lane, Time now) {
  const uint32_t flow = lane.first + static_cast<uint32_t>(lane.left % lane.count);
  if (lane.failed || lane.waiting_at == lane.waiting.size() || !traffic_->idle(flow)) return false;
  ++lane.left;
  const uint64_t bytes = lane.waiting[lane.waiting_at].bytes;
  carried_[flow - first_flow_] = lane.waiting[lane.waiting_at++];
  arrived_[flow - first_flow_] = false;
  const Time at = now + traffic_->lead(flow);
  if (!at_once_ || at == now) {
    traffic_->send(flow, bytes, now, at_once_);
  } else {
    traffic_->post(flow, bytes);
    posted_[flow - first_flow_] = true;
    listener_->inner_reaches(flow, at);
  }
  return true;
}

void InnerMessages::leave_all(Lane& lane, Time now) {
  while (leave(lane, now)) {
  }
}

void InnerMessages::send_data(Ends& ends, Time now) {
  if (ends.split != nullptr) return send_parts(ends, now);
  while (ends.may_leave > 0 && leave(ends.lanes[0], now)) --ends.may_leave;
}

void InnerMessages::send_parts(Ends& ends, Time now) {
  std::deque<uint64_t>& waiting = ends.split->waiting;
  for (; ends.may_leave > 0 && !waiting.empty(); --ends.may_leave) {
    for (uint32_t part = 0; part < ends.parts; ++part) {
      wait(ends.lanes[lane_for(ends, part)],
           {message_part(waiting.front(), ends.parts, part).bytes, ends.cut});
    }
    ++ends.cut;
    waiting.pop_front();
  }
  for (uint32_t part = 0; part < ends.parts; ++part) leave_all(ends.lanes[part], now);
}

/// NCCL's sender looks at them in their order.
void InnerMessages::credit_came(Ends& ends, uint64_t number, Time now) {
  uint32_t came = 1;
  if (ends.split != nullptr) came = ends.split->credits.take(number);
  ends.may_leave += came;
  if (came > 0) send_data(ends, now);
}

void InnerMessages::on_received(uint32_t flow, Time now) {
  if (!ours(flow) || stale_[flow - first_flow_]) return;
  const auto [connection, lane] = owners_[flow - first_flow_];
  Ends& ends = ends_[connection];
  arrived_[flow - first_flow_] = true;
  const uint64_t number = carried_[flow - first_flow_].number;
  if (lane >= ends.parts) return credit_came(ends, number, now);
  uint32_t whole = 1;
  if (ends.split != nullptr) whole = ends.split->received.take(number);
  for (uint32_t i = 0; i < whole; ++i) {
    ++counters_.received;
    listener_->inner_received(connection, now);
  }
}

void InnerMessages::on_acknowledged(uint32_t flow, Time now) {
  if (!ours(flow)) return;
  if (closed_) return traffic_->close(flow);
  const auto [connection, lane] = owners_[flow - first_flow_];
  Ends& ends = ends_[connection];
  const bool stale = stale_[flow - first_flow_];
  stale_[flow - first_flow_] = false;
  if (lane >= ends.parts) return leave_all(ends.lanes[lane], now);
  if (stale) return send_data(ends, now);
  const uint64_t message = carried_[flow - first_flow_].number;
  send_data(ends, now);
  acknowledged(connection, message, now);
}

void InnerMessages::acknowledged(uint32_t connection, uint64_t message, Time now) {
  const Ends& ends = ends_[connection];
  const uint32_t whole = ends.split == nullptr ? 1 : ends.split->acknowledged.take(message);
  for (uint32_t i = 0; i < whole; ++i) listener_->inner_acknowledged(connection, now);
}

/// Of lanes of data, or of credits: how many there are, from `first` on.
uint32_t InnerMessages::lanes_like(const Ends& ends, uint32_t lane, uint32_t& first) {
  first = lane < ends.parts ? 0 : ends.parts;
  return lane < ends.parts ? ends.parts : static_cast<uint32_t>(ends.lanes.size()) - ends.parts;
}

/// It, or the next one like it that has not failed.
uint32_t InnerMessages::lane_for(const Ends& ends, uint32_t lane) {
  uint32_t first = 0;
  const uint32_t count = lanes_like(ends, lane, first);
  for (uint32_t i = 0; ends.lanes[lane].failed && i < count; ++i) {
    lane = first + (lane - first + 1) % count;
  }
  return lane;
}

bool InnerMessages::on_given_up(uint32_t flow, Time now) {
  if (failover_ == InnerFailover::kNone || !ours(flow)) return false;
  const auto [connection, number] = owners_[flow - first_flow_];
  Ends& ends = ends_[connection];
  uint32_t first = 0, failed = 1;
  const uint32_t count = lanes_like(ends, number, first);
  for (uint32_t l = first; l < first + count; ++l) failed += ends.lanes[l].failed ? 1 : 0;
  if (ends.split == nullptr || failed == count) return false;
  if (failover_ == InnerFailover::kOnce && failed > 1) return false;
  Lane& lane = ends.lanes[number];
  lane.failed = true;
  ++counters_.failed;
  Lane& other = ends.lanes[lane_for(ends, number)];
  std::vector<uint64_t> heard;  // the receiver has them, and says so when it is asked
  for (uint64_t i = 0; i < lane.count; ++i) {
    const uint32_t of = lane.first + static_cast<uint32_t>((lane.left + i) % lane.count);
    const uint32_t at = of - first_flow_;
    if (traffic_->idle(of) || stale_[at]) continue;
    stale_[at] = true;
    if (arrived_[at]) {
      heard.push_back(carried_[at].number);
      continue;
    }
    wait(other, carried_[at]);
    ++counters_.repeated;
  }
  for (; lane.waiting_at < lane.waiting.size(); ++lane.waiting_at) {
    wait(other, lane.waiting[lane.waiting_at]);
  }
  leave_all(other, now);
  for (const uint64_t message : heard) {
    if (number < ends.parts) acknowledged(connection, message, now);
  }
  return true;
}

}  // namespace understudy
