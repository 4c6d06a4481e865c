#include "ctrl/peers/cm_service.h"

#include "ctrl/peers/perftest_cm.h"
#include "ctrl/peers/rping.h"
#include "ctrl/peers/ucmatose.h"

namespace understudy {

EndpointRequest endpoint_for(const Service& service, const CmClient& client) {
  EndpointRequest request;
  request.local = client.local;
  request.remote = client.remote;
  request.remote_qpn = client.remote_qpn;
  request.local_psn = client.local_psn;
  request.remote_psn = choose_psn(service, client.remote, client.remote_qpn);
  request.mtu = client.mtu;
  request.timeout = client.timeout;
  request.retry_count = client.retry_count;
  request.rnr_retry = client.rnr_retry;
  request.max_rd_atomic = client.responder_resources;
  request.flow_control = client.flow_control;
  request.awaits_client = true;
  request.sender = service.sender;
  if (client.traffic_class != 0) request.sender.traffic_class = client.traffic_class;
  request.service_port = service.port;
  request.service_kind = service_kind_name(service.kind);
  return request;
}

bool only_by_cm(ServiceKind kind) {
  return kind == ServiceKind::kRping || kind == ServiceKind::kUcmatose;
}

std::unique_ptr<CmService> make_cm_service(const Service& service) {
  switch (service.kind) {
    case ServiceKind::kRping:
      return std::make_unique<RpingService>(service);
    case ServiceKind::kUcmatose:
      return std::make_unique<UcmatoseService>(service);
    case ServiceKind::kPingpong:
    case ServiceKind::kUdPingpong:
      return nullptr;
    default:
      return std::make_unique<PerftestCmService>(service);
  }
}

}  // namespace understudy
