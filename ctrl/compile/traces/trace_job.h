// Traces, ready to be carried out on a network: packet by packet or as rates.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collective_model/traces/trace_run.h"
#include "collective_model/workload/closed_operations.h"
#include "ctrl/compile/traces/trace_plan.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"
#include "dataplane/collective/communicators/communicator_packets.h"
#include "dataplane/collective/communicators/communicator_rates.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

/// Has a run of traces go on when it is time by the network's clock.
class TraceClock final : public FlowJob {
 public:
  explicit TraceClock(TraceRun& run) : run_(run) {}

  // FlowJob
  uint32_t attach(FlowCarrier& carrier, uint32_t first_wake) override;
  void start() override { run_.begin(Time::zero()); }
  bool finished() const override { return run_.finished(); }
  double share_done() const override { return run_.share_done(); }
  std::string why_unfinished() const override { return run_.why_unfinished(); }

  // FlowListener
  void on_received(uint32_t, Time) override {}
  void on_acknowledged(uint32_t, Time) override {}
  void on_wake(uint32_t index, Time now) override {
    if (index == wake_) run_.advance(now);
  }

 private:
  TraceRun& run_;
  uint32_t wake_ = 0;
};

struct TraceOnNetwork {
  std::shared_ptr<const TracePlan> plan;
  ClosedOperations closed;                       ///< communicators that do not cross the network
  std::unique_ptr<CommunicatorPackets> packets;  ///< one of both; neither where nothing crosses it
  std::unique_ptr<CommunicatorRates> rates;
  std::unique_ptr<TraceRun> run;
  std::unique_ptr<TraceClock> clock;
  uint32_t connections = 0;  ///< over the network, without credits

  std::vector<FlowJob*> jobs() const;
};

/// What the operations of a communicator take, by shape.
using TraceTimes = std::function<std::vector<ClosedTime>(const TraceCommunicator& communicator)>;

/// All communicators take given times: nothing crosses a network.
std::unique_ptr<TraceOnNetwork> close_traces(std::shared_ptr<const TracePlan> plan,
                                             const TraceTimes& times);

/// Appends the flows; connections are numbered from `first_connection` on, which becomes the first free
/// number. Errors: what NCCL would not carry out, or more flows than memory has room for.
Result<std::unique_ptr<TraceOnNetwork>> build_traces(const Config& config,
                                                     std::shared_ptr<const TracePlan> plan,
                                                     const Topology& topology,
                                                     std::vector<FlowSpec>& flows,
                                                     uint32_t& first_connection);

}  // namespace understudy
