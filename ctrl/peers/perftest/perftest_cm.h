// The server of perftest's programs with -R. A client connects by RDMA-CM once for its side
// channel, whose messages are SENDs (perftest.h), then once for each queue pair under test, and
// says on the side channel which is which. Connections of one address belong together: perftest's
// own server has one client at a time, so a node's next client may come as soon as the last has its
// queue pairs.
#pragma once

#include <list>
#include <map>
#include <vector>

#include "ctrl/peers/cm_service.h"
#include "ctrl/peers/perftest/perftest.h"

namespace understudy {

class PerftestCmService : public CmService {
 public:
  explicit PerftestCmService(Service service) : service_(std::move(service)) {}
  Result<EndpointRequest> on_request(Time now, Id id, const CmClient& client) override;
  std::vector<uint8_t> on_endpoint(Time now, Id id, const EndpointReady& ready) override;
  void on_message(Time now, Id id, std::span<const uint8_t> bytes) override;
  std::string on_closed(Time now, Id id) override;

 private:
  struct Session {
    explicit Session(const Service& service) : peer(service, PerftestPeer::Channel::kInBand) {}
    IpAddress client;
    Id channel = 0;
    PerftestPeer peer;
    std::vector<Id> tests;
    bool over = false;  ///< all of its connections are to be closed, or the channel is
  };
  using Sessions = std::list<Session>;

  Result<EndpointRequest> test_queue_pair(const Session& session, const CmClient& client) const;
  void collect(Session& session);

  Service service_;
  Sessions sessions_;
  struct Connection {
    Sessions::iterator session;
    Qpn client_qpn = 0;
  };
  std::map<Id, Connection> connections_;
};

}  // namespace understudy
