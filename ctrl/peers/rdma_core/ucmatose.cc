#include "ctrl/peers/rdma_core/ucmatose.h"

namespace understudy {

Result<EndpointRequest> UcmatoseService::on_request(Time, Id, const CmClient& client) {
  EndpointRequest request = endpoint_for(service_, client);
  request.behaviour = Behaviour::kSendBurst;
  request.burst_messages = kUcmatoseMessages;
  request.burst_bytes = kUcmatoseMessageBytes;
  return request;
}

std::vector<uint8_t> UcmatoseService::on_endpoint(Time, Id id, const EndpointReady& ready) {
  qpns_[id] = ready.qpn;
  return {};
}

void UcmatoseService::on_established(Time, Id id) { starts_.push_back({qpns_.at(id), 0, 0, 0}); }

void UcmatoseService::on_done(Time, Id id) { closes_.push_back(id); }

std::string UcmatoseService::on_closed(Time, Id id) {
  qpns_.erase(id);
  return "";
}

}  // namespace understudy
