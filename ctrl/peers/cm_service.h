// What answers the RDMA-CM clients of one [[service]]: a machine that hears of connections and says
// what they get. It owns no socket, clock or thread, as the peers of TCP clients (peer.h).
//
// A connection: on_request() names the queue pair that the client gets; on_endpoint() tells which
// one it was, and gives the private data of the REP; on_established() when the client's RTU or its
// first packet came; on_done() when the queue pair's behaviour has nothing more to do; on_closed()
// at the end, whoever wished it. The queue pair is taken away later, after time-wait.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ctrl/peers/peer.h"
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
  std::vector<uint8_t> private_data;  ///< without RDMA-CM's header
};

class CmService {
 public:
  using Id = uint32_t;  ///< of a connection

  virtual ~CmService() = default;
  /// The queue pair that this client gets, or why it gets none: it is rejected.
  virtual Result<EndpointRequest> on_request(Time now, Id id, const CmClient& client) = 0;
  virtual std::vector<uint8_t> on_endpoint(Time, Id, const EndpointReady&) { return {}; }
  virtual void on_established(Time, Id) {}
  virtual void on_done(Time, Id) {}
  /// A message of the client, with Behaviour::kMessages.
  virtual void on_message(Time, Id, std::span<const uint8_t>) {}
  /// Gives what went wrong, nothing if all went well.
  virtual std::string on_closed(Time, Id) { return ""; }

  /// Queue pairs whose client now waits for our first message, since the last call.
  std::vector<EndpointStart> take_starts() { return std::exchange(starts_, {}); }
  struct Message {
    Id id = 0;
    std::vector<uint8_t> bytes;
  };
  /// Messages for clients with Behaviour::kMessages, since the last call.
  std::vector<Message> take_messages() { return std::exchange(messages_, {}); }
  /// Connections to be closed from our side, once their clients have what was sent to them.
  std::vector<Id> take_closes() { return std::exchange(closes_, {}); }

 protected:
  std::vector<EndpointStart> starts_;
  std::vector<Id> closes_;
  std::vector<Message> messages_;
};

/// A request for a queue pair as the client's REQ asks for it; behaviour and memory are to be set.
EndpointRequest endpoint_for(const Service& service, const CmClient& client);

/// True for kinds whose clients come by RDMA-CM only.
bool only_by_cm(ServiceKind kind);

/// The machine for this service's clients; null where its kind's clients do not come by RDMA-CM.
std::unique_ptr<CmService> make_cm_service(const Service& service);

}  // namespace understudy
