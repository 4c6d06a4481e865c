// What answers the RDMA-CM clients of one [[service]]. A connection begins with on_request(), which
// names the queue pair that the client gets; the rest is as cm_machine.h says.
#pragma once

#include <vector>

#include "ctrl/peers/cm_machine.h"
#include "ctrl/peers/service.h"
#include "dataplane/base/result.h"

namespace understudy {

/// A client's REQ in the terms of a queue pair.
struct CmClient {
  IpAddress local, remote;
  uint16_t port = 0;  ///< that was dialled
  Qpn remote_qpn = 0;
  Psn local_psn;                    ///< first one that we shall send: the client chooses it
  uint32_t mtu = 1024;              ///< path MTU, bytes
  uint8_t timeout = 14;             ///< ACK timeout, 4.096 us << timeout
  uint8_t retry_count = 7;          ///< for us as well
  uint8_t rnr_retry = 7;            ///< for us as well
  uint8_t responder_resources = 0;  ///< READs and ATOMICs of ours that the client answers at a time
  uint8_t initiator_depth = 0;      ///< ... and that it will have outstanding
  uint8_t traffic_class = 0;        ///< that the client asks for; 0: none in particular
  bool flow_control = false;  ///< the client's ACKs count its receives: we are to keep to them
  std::vector<uint8_t> private_data;  ///< without RDMA-CM's header
};

class CmService : public CmMachine {
 public:
  /// The queue pair that this client gets, or why it gets none: it is rejected.
  virtual Result<EndpointRequest> on_request(Time now, Id id, const CmClient& client) = 0;
};

/// A request for a queue pair as the client's REQ asks for it; behaviour and memory are to be set.
EndpointRequest endpoint_for(const Service& service, const CmClient& client);

/// True for kinds whose clients come by RDMA-CM only.
bool only_by_cm(ServiceKind kind);

}  // namespace understudy
