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
  const auto pairs = static_cast<uint32_t>(connections_.size());
  uint32_t next = first_connection + pairs;
  for (uint32_t i = 0; i < pairs; ++i) {
    const std::vector<InnerConnection::Way>& ways = connections_[i].ways;
    ASSERT_INVARIANT(!ways.empty());
    ends_[i].data.resize(ways.size());
    for (uint32_t part = 0; part < ways.size(); ++part) {
      const FlowSpec data = data_flow(settings_, ways[part].from, ways[part].to, next++);
      add_lane(flows, data, ends_[i].data[part], {i, part, false});
    }
    const FlowSpec data = data_flow(settings_, ways[0].from, ways[0].to, 0);
    add_lane(flows, credit_flow(settings_, data, first_connection + i), ends_[i].credits,
             {i, 0, true});
  }
  return next;
}

/// Two windows: an operation's first messages may leave while the last ones of the one before are
/// not acknowledged yet.
void InnerMessages::add_lane(std::vector<FlowSpec>& flows, const FlowSpec& flow, Lane& lane,
                             Owner owner) {
  lane.first = static_cast<uint32_t>(flows.size());
  lane.count = 2 * std::max(1u, connections_[owner.connection].window);
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
  if (ends.data.size() == 1) {
    wait(ends.data[0], bytes);
  } else {
    ends.waiting.push_back(bytes);
  }
  send_data(connection, now);
}

void InnerMessages::grant(uint32_t connection, Time now) {
  wait(ends_[connection].credits, settings_.credit_bytes);
  send_credits(connection, now);
}

void InnerMessages::close() {
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
  traffic_->send(flow, lane.waiting[lane.waiting_at++], now, at_once_);
  return true;
}

void InnerMessages::send_data(uint32_t connection, Time now) {
  Ends& ends = ends_[connection];
  if (ends.data.size() > 1) return send_parts(ends, now);
  while (ends.may_leave > 0 && leave(ends.data[0], now)) --ends.may_leave;
}

void InnerMessages::send_parts(Ends& ends, Time now) {
  constexpr uint64_t kAlign = 128;  // whole lines of LL and LL128
  for (; ends.may_leave > 0 && !ends.waiting.empty(); --ends.may_leave) {
    const uint64_t bytes = ends.waiting.front(), parts = ends.data.size();
    ends.waiting.pop_front();
    const uint64_t most = ((bytes + parts - 1) / parts + kAlign - 1) / kAlign * kAlign;
    uint32_t used = 0;
    for (uint64_t at = 0; at == 0 || at < bytes; at += most) {
      wait(ends.data[used++], std::min(most, bytes - at));
      if (most == 0) break;
    }
    ends.receiving.add(used);
    ends.acknowledging.add(used);
  }
  for (Lane& lane : ends.data) {
    while (leave(lane, now)) {
    }
  }
}

uint32_t InnerMessages::Joining::take(uint32_t part) {
  if (next_.size() <= part) next_.resize(part + 1);
  uint64_t k = std::max(next_[part], first_);
  while (messages_[k - first_].parts <= part) ++k;
  next_[part] = k + 1;
  --messages_[k - first_].left;
  uint32_t whole = 0;
  for (; !messages_.empty() && messages_.front().left == 0; ++whole) {
    messages_.pop_front();
    ++first_;
  }
  return whole;
}

void InnerMessages::send_credits(uint32_t connection, Time now) {
  while (leave(ends_[connection].credits, now)) {
  }
}

void InnerMessages::on_received(uint32_t flow, Time now) {
  if (!ours(flow)) return;
  const auto [connection, part, credit] = owners_[flow - first_flow_];
  Ends& ends = ends_[connection];
  if (credit) {
    ++ends.may_leave;
    return send_data(connection, now);
  }
  const uint32_t whole = ends.data.size() == 1 ? 1 : ends.receiving.take(part);
  for (uint32_t i = 0; i < whole; ++i) {
    ++counters_.received;
    listener_->inner_received(connection, now);
  }
}

void InnerMessages::on_acknowledged(uint32_t flow, Time now) {
  if (!ours(flow)) return;
  if (closed_) return traffic_->close(flow);
  const auto [connection, part, credit] = owners_[flow - first_flow_];
  if (credit) return send_credits(connection, now);
  send_data(connection, now);
  Ends& ends = ends_[connection];
  const uint32_t whole = ends.data.size() == 1 ? 1 : ends.acknowledging.take(part);
  for (uint32_t i = 0; i < whole; ++i) listener_->inner_acknowledged(connection, now);
}

}  // namespace understudy
