// Operations of many communicators as flows: one for each connection and operation, which begins when
// the last member has entered. Of a collective it is what a ring sends over the connection, all steps
// together. For rates, where what counts is how long links are shared, and not how messages follow each
// other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "collective_model/workload/communicators.h"
#include "dataplane/collective/flow_job.h"
#include "dataplane/collective/packet_level_ranks.h"
#include "dataplane/fabric/flow.h"

namespace understudy {

/// What operations that are alike send.
struct RateShape {
  std::vector<uint32_t> ways;   ///< of the communicator's, by position; empty: all
  std::vector<uint64_t> bytes;  ///< over each of these, or one for all
  Duration behind;              ///< until members are done, once all flows have come
};

struct RateCommunicator {
  uint32_t members = 0;
  bool message = false;                ///< from member 0 to member 1
  std::vector<MessageWays::Way> ways;  ///< of its connections
  std::vector<RateShape> shapes;
  std::vector<uint32_t> operations;  ///< the shape of each
};

class CommunicatorRates final : public FlowJob, public OperationCarrier {
 public:
  /// Communicators are numbered from `first` on.
  CommunicatorRates(std::vector<RateCommunicator> communicators, uint32_t first,
                    const PacketLevelRanksSettings& settings);

  void listen(CommunicatorListener& listener) { listener_ = &listener; }
  /// As CommunicatorPackets::begin_with().
  void begin_with(std::function<void()> begin, std::function<double()> done) {
    begin_ = std::move(begin);
    done_ = std::move(done);
  }
  /// Appends the flows; gives the first free number of a connection.
  uint32_t add_flows(std::vector<FlowSpec>& flows, uint32_t first_connection);

  // OperationCarrier
  void enter(uint32_t communicator, uint32_t operation, uint32_t member, Time at) override;
  /// The first operation of this shape that has not been given yet.
  uint32_t append(uint32_t communicator, uint32_t shape) override;

  // FlowJob
  uint32_t attach(FlowCarrier& carrier, uint32_t first_wake) override;
  void start() override { begin_(); }
  bool finished() const override { return done_() >= 1; }
  double share_done() const override { return done_(); }

  // FlowListener
  void on_received(uint32_t flow, Time now) override;
  void on_acknowledged(uint32_t, Time) override {}
  void on_wake(uint32_t, Time) override {}

 private:
  struct Progress {
    uint32_t to_enter = 0, to_come = 0;  ///< members, flows
    Time last;                           ///< of those who have entered
  };
  struct State {
    RateCommunicator what;
    std::vector<Progress> progress;     ///< by operation
    std::vector<uint32_t> first_flows;  ///< by operation, and one more
    std::vector<uint32_t> given;        ///< by shape: behind the last operation that append() gave
  };

  const uint32_t first_;
  PacketLevelRanksSettings settings_;
  std::vector<State> states_;
  uint32_t first_flow_ = 0, end_flow_ = 0;
  CommunicatorListener* listener_ = nullptr;
  std::function<void()> begin_;
  std::function<double()> done_;  ///< share of the work
  FlowCarrier* carrier_ = nullptr;
};

}  // namespace understudy
