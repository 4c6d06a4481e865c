// Flows with max-min fair rates as a load on a network whose own packets are carried one by one:
// what a real node finds on the links of a cluster that is too large for packets.
#pragma once

#include <cstdint>

#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_model.h"

namespace understudy {

/// A link's packets get what its flows leave of its rate, but no less than a fair share beside
/// them. The flows do not notice the packets.
class FlowLoad final : public NetworkTraffic, public LinkLoad {
 public:
  /// `model` outlives this and has not been started.
  explicit FlowLoad(FlowModel& model) : model_(model) {}

  // NetworkTraffic
  void start(Network& network) override;
  PacketId pull(LinkId, uint8_t, Time) override { return kNoPacketId; }
  void deliver(PacketId, Time) override {}  // it has no packets
  void lost(PacketId, PacketLoss, Time) override {}
  void wake(uint32_t index, Time now) override;
  void link_changed(const RateChange& change) override;
  void set_running(uint32_t group, bool running, Time now) override;

  // LinkLoad
  Rate left(LinkId link, Rate rate) const override;

 private:
  void wait();

  FlowModel& model_;
  Network* network_ = nullptr;
  Time waiting_ = Time::never();  ///< for the earliest wake that has been asked for
};

}  // namespace understudy
