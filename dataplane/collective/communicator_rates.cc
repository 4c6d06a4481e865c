#include "dataplane/collective/communicator_rates.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/assert.h"

namespace understudy {

CommunicatorRates::CommunicatorRates(std::vector<RateCommunicator> communicators, uint32_t first,
                                     const PacketLevelRanksSettings& settings)
    : first_(first), settings_(settings) {
  for (RateCommunicator& what : communicators) {
    ASSERT_INVARIANT(!what.ways.empty() && (!what.message || what.members == 2));
    ASSERT_INVARIANT(what.behind.size() == what.bytes.size());
    State& state = states_.emplace_back();
    const Progress fresh{what.members, static_cast<uint32_t>(what.ways.size()), Time()};
    state.progress.assign(what.bytes.size(), fresh);
    state.what = std::move(what);
  }
}

uint32_t CommunicatorRates::add_flows(std::vector<FlowSpec>& flows, uint32_t first_connection) {
  first_flow_ = static_cast<uint32_t>(flows.size());
  for (State& state : states_) {
    state.first_flow = static_cast<uint32_t>(flows.size());
    const auto connections = static_cast<uint32_t>(state.what.ways.size());
    for (const uint64_t bytes : state.what.bytes) {
      for (uint32_t w = 0; w < connections; ++w) {
        FlowSpec flow = data_flow(settings_, state.what.ways[w], first_connection + w);
        flow.bytes = bytes;
        flows.push_back(std::move(flow));
      }
    }
    first_connection += connections;
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

void CommunicatorRates::enter(uint32_t communicator, uint32_t operation, uint32_t /*member*/,
                              Time at) {
  State& state = states_[communicator - first_];
  Progress& progress = state.progress[operation];
  progress.last = std::max(progress.last, at);
  if (--progress.to_enter > 0) return;
  const auto connections = static_cast<uint32_t>(state.what.ways.size());
  const uint32_t first = state.first_flow + operation * connections;
  for (uint32_t w = 0; w < connections; ++w) carrier_->release(first + w, progress.last);
}

void CommunicatorRates::on_received(uint32_t flow, Time now) {
  if (flow < first_flow_ || flow >= end_flow_) return;
  const auto after =
      std::upper_bound(states_.begin(), states_.end(), flow,
                       [](uint32_t value, const State& state) { return value < state.first_flow; });
  State& state = *(after - 1);
  const auto connections = static_cast<uint32_t>(state.what.ways.size());
  const uint32_t operation = (flow - state.first_flow) / connections;
  if (--state.progress[operation].to_come > 0) return;
  const Time done = now + state.what.behind[operation];
  const auto communicator = first_ + static_cast<uint32_t>(&state - states_.data());
  for (uint32_t member = 0; member < state.what.members; ++member) {
    listener_->done(communicator, operation, member, done);
  }
}

}  // namespace understudy
