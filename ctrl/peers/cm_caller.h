// A client of ours that connects by RDMA-CM: a machine that says which connections it wants and
// hears what becomes of them. A call that nobody takes is dialled again by whoever drives the
// machine; on_endpoint() then tells the new queue pair.
#pragma once

#include <memory>

#include "ctrl/peers/cm_machine.h"
#include "ctrl/peers/service.h"

namespace understudy {

/// One connection that a client wants.
struct CmCall {
  CmMachine::Id id = 0;  ///< the machine chooses it
  /// The queue pair, but for what the server's REP tells of it.
  EndpointRequest request;
  uint8_t responder_resources = 0;  ///< READs and ATOMICs of the server that we answer at a time
  uint8_t initiator_depth = 0;      ///< ... and that we want to have outstanding
};

class CmCaller : public CmMachine {
 public:
  /// `label` begins every failure's text.
  explicit CmCaller(std::string label) : label_(std::move(label)) {}

  /// A queue pair's traffic has ended.
  virtual void on_traffic(Time now, const TrafficResult& result) = 0;
  /// Without its connections the client cannot go on.
  void give_up(const std::string& reason) {
    if (finished_) return;
    failure_ = label_ + ": " + reason;
    finished_ = true;
  }

  /// Connections wanted since the last call.
  std::vector<CmCall> take_calls() { return std::exchange(calls_, {}); }
  bool finished() const { return finished_; }              ///< its connections are to be closed
  const std::string& failure() const { return failure_; }  ///< empty if it did not fail

 protected:
  std::vector<CmCall> calls_;
  std::string label_;
  std::string failure_;
  bool finished_ = false;
};

/// "client of 10.9.0.1:18515 (write_bw) on node w0": how failure texts start. `self`: the emulated
/// node; its port and kind are the server's.
std::string client_label(const Service& self, const IpAddress& server);

/// What to say of a queue pair whose traffic of `messages` ended without success.
std::string traffic_failure(const TrafficResult& result, uint64_t messages);

}  // namespace understudy
