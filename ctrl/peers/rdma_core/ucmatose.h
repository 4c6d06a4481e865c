// The server of ucmatose (rdma-core's librdmacm/examples): once connected it sends its messages,
// waits for as many of the client, and closes. Both sides must have been given the same number and
// size; ours are the program's defaults.
#pragma once

#include <map>

#include "ctrl/peers/cm_service.h"

namespace understudy {

inline constexpr uint32_t kUcmatoseMessages = 10;
inline constexpr uint32_t kUcmatoseMessageBytes = 100;

class UcmatoseService : public CmService {
 public:
  explicit UcmatoseService(Service service) : service_(std::move(service)) {}
  Result<EndpointRequest> on_request(Time now, Id id, const CmClient& client) override;
  std::vector<uint8_t> on_endpoint(Time now, Id id, const EndpointReady& ready) override;
  void on_established(Time now, Id id) override;
  void on_done(Time now, Id id) override;
  std::string on_closed(Time now, Id id) override;

 private:
  Service service_;
  std::map<Id, Qpn> qpns_;
};

}  // namespace understudy
