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
    wait(ends.lanes[0], bytes);
  } else {
    ends.split->waiting.push_back(bytes);
  }
  send_data(ends, now);
}

void InnerMessages::grant(uint32_t connection, Time now) {
  Ends& ends = ends_[connection];
  const size_t turns = ends.lanes.size() - ends.parts;
  Lane& lane = ends.lanes[ends.parts + (turns == 1 ? 0 : ends.granted % turns)];
  ++ends.granted;
  wait(lane, settings_.credit_bytes);
  leave_all(lane, now);
}

void InnerMessages::forget(Time now) {
  for (uint32_t i = 0; i < owners_.size(); ++i) {
    if (posted_[i]) reach(first_flow_ + i, now);
    stale_[i] = !traffic_->idle(first_flow_ + i);
  }
  for (Ends& ends : ends_) {
    ends.may_leave = ends.granted = 0;
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
    if (traffic_->idle(first_flow_ + i)) traffic_->close(first_flow_ + i);
  }
}

void InnerMessages::wait(Lane& lane, uint64_t bytes) {
  if (lane.waiting_at == lane.waiting.size()) {
    lane.waiting.clear();
    lane.waiting_at = 0;
  } else if (lane.waiting_at >= lane.count) {
    lane.waiting.erase(lane.waiting.begin(),
                       lane.waiting.begin() + static_cast<ptrdiff_t>(lane.waiting_at));
    lane.waiting_at = 0;
  }
  lane.waiting.push_back(bytes);
}

/// The first one that waits, if there is one and its flow is free.
bool InnerMessages::leave(Lane& lane, Time now) {
  const uint32_t flow = lane.first + static_cast<uint32_t>(lane.left % lane.count);
  if (lane.waiting_at == lane.waiting.size() || !traffic_->idle(flow)) return false;
  ++lane.left;
  const uint64_t bytes = lane.waiting[lane.waiting_at++];
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
      wait(ends.lanes[part], message_part(waiting.front(), ends.parts, part).bytes);
    }
    waiting.pop_front();
  }
  for (uint32_t part = 0; part < ends.parts; ++part) leave_all(ends.lanes[part], now);
}

/// One of `flow`; NCCL's sender looks at them in their order.
void InnerMessages::credit_came(Ends& ends, uint32_t lane, uint32_t flow, Time now) {
  uint32_t came = 1;
  if (ends.split != nullptr) {
    const uint64_t turns = ends.lanes.size() - ends.parts;
    came = ends.split->credits.take(ends.lanes[lane].carried(flow) * turns + lane - ends.parts);
  }
  ends.may_leave += came;
  if (came > 0) send_data(ends, now);
}

void InnerMessages::on_received(uint32_t flow, Time now) {
  if (!ours(flow) || stale_[flow - first_flow_]) return;
  const auto [connection, lane] = owners_[flow - first_flow_];
  Ends& ends = ends_[connection];
  if (lane >= ends.parts) return credit_came(ends, lane, flow, now);
  uint32_t whole = 1;
  if (ends.split != nullptr) whole = ends.split->received.take(ends.lanes[lane].carried(flow));
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
  const uint64_t message = ends.lanes[lane].carried(flow);
  send_data(ends, now);
  const uint32_t whole = ends.split == nullptr ? 1 : ends.split->acknowledged.take(message);
  for (uint32_t i = 0; i < whole; ++i) listener_->inner_acknowledged(connection, now);
}

}  // namespace understudy
