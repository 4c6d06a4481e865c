#include "ctrl/peers/cm_service.h"

#include <algorithm>

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

bool only_by_cm(ServiceKind kind) { return std::ranges::count(kOnlyByCm, kind) != 0; }

}  // namespace understudy
