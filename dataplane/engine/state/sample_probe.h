// What control wants to know of a shard's network at one moment: some of its links, of the flows on
// it and of the queue pairs under congestion control. Control makes the room, names what it watches
// and has the shard wake this (CommandKind::kWakeEndpoint), which copies the numbers; the command's
// answer says that they are there. It is no endpoint of any queue pair.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/engine/state/qp_control.h"
#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_model.h"
#include "dataplane/flows/flow_traffic.h"
#include "dataplane/node/endpoint.h"

namespace understudy {

class SampleProbe final : public Endpoint {
 public:
  /// Most links, flows and queue pairs together: what is copied between two packets.
  static constexpr size_t kMost = 64;

  struct Link {
    LinkId link = kNoLink;
    uint64_t queued = 0;         ///< bytes
    unsigned __int128 sent = 0;  ///< as Network::sent_bits()
    MaxMin::Share used = 0;      ///< of flows that are rates
  };
  struct Flow {
    uint32_t flow = 0;
    bool started = false, ended = false;
    uint64_t delivered = 0;  ///< bytes
    Rate rate = {};          ///< of its sender, or its share
    uint64_t window = Controller::kNoWindow;
  };
  struct QueuePair {
    /// There when the shard is woken: nobody takes it away before with a command that comes first.
    const QpControl* control = nullptr;
    bool sends = false;  ///< it has begun to
    Rate rate = {};
    uint64_t window = Controller::kNoWindow;
  };

  /// Of the shard, which has this network; what carries the flows is packets or rates, or null.
  SampleProbe(const Network& network, const FlowTraffic* packets, const FlowModel* rates)
      : network_(&network), packets_(packets), rates_(rates) {}

  std::vector<Link> links;
  std::vector<Flow> flows;
  std::vector<QueuePair> queue_pairs;
  Time at;  ///< when it was copied

  size_t size() const { return links.size() + flows.size() + queue_pairs.size(); }
  bool as_rates() const { return rates_ != nullptr; }

  // Endpoint
  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}

 private:
  void copy(Flow& flow) const;

  const Network* network_;
  const FlowTraffic* packets_;
  const FlowModel* rates_;
};

}  // namespace understudy
