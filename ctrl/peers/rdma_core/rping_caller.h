// The client of rping (rdma-core's librdmacm/examples): one connection, whose pings are the queue
// pair's behaviour (dataplane/node/rping_client.h).
#pragma once

#include "ctrl/peers/cm_caller.h"

namespace understudy {

class RpingCaller : public CmCaller {
 public:
  /// `self`: the emulated node; its port is the server's. `server` has a family that `self` has an
  /// address of. `text_bytes`: of each ping, at most what the server was given as -S.
  RpingCaller(const Service& self, const IpAddress& server, uint32_t text_bytes, uint64_t pings);
  std::vector<uint8_t> on_endpoint(Time now, Id id, const EndpointReady& ready) override;
  void on_established(Time now, Id id) override;
  void on_traffic(Time now, const TrafficResult& result) override;
  std::string on_closed(Time now, Id id) override;

 private:
  uint64_t pings_;
  Qpn qpn_ = 0;
};

}  // namespace understudy
