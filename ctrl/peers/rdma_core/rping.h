// The server of rping (rdma-core's librdmacm/examples): its clients' pings are answered by the
// queue pair's behaviour alone, and the client closes.
#pragma once

#include "ctrl/peers/cm_service.h"

namespace understudy {

class RpingService : public CmService {
 public:
  explicit RpingService(Service service) : service_(std::move(service)) {}
  Result<EndpointRequest> on_request(Time now, Id id, const CmClient& client) override;

 private:
  Service service_;
};

}  // namespace understudy
