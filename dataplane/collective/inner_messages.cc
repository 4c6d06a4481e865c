#include "dataplane/collective/inner_messages.h"

#include <algorithm>
#include <utility>

namespace understudy {

InnerMessages::InnerMessages(std::vector<InnerConnection> connections,
                             const PacketLevelRanksSettings& settings)
    : connections_(std::move(connections)), settings_(settings), ends_(connections_.size()) {}

uint32_t InnerMessages::add_flows(std::vector<FlowSpec>& flows, uint32_t first_connection) {
  first_flow_ = static_cast<uint32_t>(flows.size());
  const auto pairs = static_cast<uint32_t>(connections_.size());
  for (uint32_t i = 0; i < pairs; ++i) {
    const InnerConnection& c = connections_[i];
    const FlowSpec data = data_flow(settings_, c.from, c.to, first_connection + pairs + i);
    add_lane(flows, data, ends_[i].data, {i, false});
    const FlowSpec credit = credit_flow(settings_, data, first_connection + i);
    add_lane(flows, credit, ends_[i].credits, {i, true});
  }
  return first_connection + 2 * pairs;
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
  wait(ends_[connection].data, bytes);
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
  while (ends.may_leave > 0 && leave(ends.data, now)) --ends.may_leave;
}

void InnerMessages::send_credits(uint32_t connection, Time now) {
  while (leave(ends_[connection].credits, now)) {
  }
}

void InnerMessages::on_received(uint32_t flow, Time now) {
  if (!ours(flow)) return;
  const auto [connection, credit] = owners_[flow - first_flow_];
  if (credit) {
    ++ends_[connection].may_leave;
    return send_data(connection, now);
  }
  ++counters_.received;
  listener_->inner_received(connection, now);
}

void InnerMessages::on_acknowledged(uint32_t flow, Time now) {
  if (!ours(flow)) return;
  if (closed_) return traffic_->close(flow);
  const auto [connection, credit] = owners_[flow - first_flow_];
  if (credit) return send_credits(connection, now);
  send_data(connection, now);
  listener_->inner_acknowledged(connection, now);
}

}  // namespace understudy
