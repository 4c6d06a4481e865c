#include "dataplane/collective/communicators/communicator_rates.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

CommunicatorRates::CommunicatorRates(std::vector<RateCommunicator> communicators, uint32_t first,
                                     const PacketLevelRanksSettings& settings)
    : first_(first), settings_(settings) {
  for (RateCommunicator& what : communicators) {
    ASSERT_INVARIANT(!what.ways.empty() && (!what.message || what.members == 2));
    State& state = states_.emplace_back();
    for (const uint32_t shape : what.operations) {
      const std::vector<uint32_t>& ways = what.shapes[shape].ways;
      const size_t flows = ways.empty() ? what.ways.size() : ways.size();
      state.progress.push_back({what.members, static_cast<uint32_t>(flows), Time()});
    }
    state.what = std::move(what);
  }
}

uint32_t CommunicatorRates::add_flows(std::vector<FlowSpec>& flows, uint32_t first_connection) {
  first_flow_ = static_cast<uint32_t>(flows.size());
  for (State& state : states_) {
    for (size_t operation = 0; operation < state.progress.size(); ++operation) {
      state.first_flows.push_back(static_cast<uint32_t>(flows.size()));
      const RateShape& shape = state.what.shapes[state.what.operations[operation]];
      for (uint32_t i = 0; i < state.progress[operation].to_come; ++i) {
        const uint32_t way = shape.ways.empty() ? i : shape.ways[i];
        FlowSpec flow = data_flow(settings_, state.what.ways[way], first_connection + way);
        flow.bytes = shape.bytes.size() == 1 ? shape.bytes.front() : shape.bytes[i];
        flows.push_back(std::move(flow));
      }
    }
    state.first_flows.push_back(static_cast<uint32_t>(flows.size()));
    first_connection += static_cast<uint32_t>(state.what.ways.size());
  }
  end_flow_ = static_cast<uint32_t>(flows.size());
  return first_connection;
}

uint32_t CommunicatorRates::attach(FlowCarrier& carrier, uint32_t first_wake) {
  carrier_ = &carrier;
  carrier.listen(*this);
  for (uint32_t flow = first_flow_; flow < end_flow_; ++flow) carrier.hold(flow);
  return first_wake;
}

uint32_t CommunicatorRates::append(uint32_t communicator, uint32_t shape) {
  State& state = states_[communicator - first_];
  const std::vector<uint32_t>& shapes = state.what.operations;
  if (state.given.size() <= shape) state.given.resize(shape + 1);
  uint32_t& next = state.given[shape];
  while (shapes[next] != shape) ++next;
  return next++;
}

void CommunicatorRates::enter(uint32_t communicator, uint32_t operation, uint32_t /*member*/,
                              Time at) {
  State& state = states_[communicator - first_];
  Progress& progress = state.progress[operation];
  progress.last = std::max(progress.last, at);
  if (--progress.to_enter > 0) return;
  const uint32_t first = state.first_flows[operation];
  const uint32_t end = state.first_flows[operation + 1];
  for (uint32_t flow = first; flow < end; ++flow) carrier_->release(flow, progress.last);
}

void CommunicatorRates::on_received(uint32_t flow, Time now) {
  if (flow < first_flow_ || flow >= end_flow_) return;
  const auto after = std::upper_bound(
      states_.begin(), states_.end(), flow,
      [](uint32_t value, const State& state) { return value < state.first_flows.front(); });
  State& state = *(after - 1);
  const auto behind = std::upper_bound(state.first_flows.begin(), state.first_flows.end(), flow);
  const auto operation = static_cast<uint32_t>(behind - state.first_flows.begin()) - 1;
  if (--state.progress[operation].to_come > 0) return;
  const Time done = now + state.what.shapes[state.what.operations[operation]].behind;
  const auto communicator = first_ + static_cast<uint32_t>(&state - states_.data());
  for (uint32_t member = 0; member < state.what.members; ++member) {
    listener_->done(communicator, operation, member, done);
  }
}

}  // namespace understudy
