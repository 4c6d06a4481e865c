#include "ctrl/peers/rdma_core/rping.h"

namespace understudy {
namespace {
constexpr uint64_t kRegionBytes = 1 << 17;  ///< rping's text is at most 64 KiB - 1; its messages 16
}

Result<EndpointRequest> RpingService::on_request(Time, Id, const CmClient& client) {
  if (client.responder_resources == 0) {
    return fail(service_label(service_) + ": the client answers no READ, which rping needs");
  }
  EndpointRequest request = endpoint_for(service_, client);
  request.behaviour = Behaviour::kRping;
  request.region_bytes = kRegionBytes;
  return request;
}

}  // namespace understudy
