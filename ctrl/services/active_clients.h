// Clients of the configuration: each dials its server in a real node, by TCP or by RDMA-CM, again
// while nobody listens there, and runs its test once.
#pragma once

#include <map>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/peers/peer_host.h"
#include "ctrl/report/run_report.h"
#include "ctrl/services/cm_control.h"
#include "ctrl/services/endpoints.h"

namespace understudy {

class ActiveClients {
 public:
  /// All arguments outlive this; `cms[i]` belongs to port i of the configuration.
  ActiveClients(const Config& config, PeerHost& host, ServiceEndpoints& endpoints,
                std::vector<CmControl*> cms);

  void poll(Time now);
  /// A dialled connection has ended. Returns what there is to say about it.
  std::string on_ended(Time now, const EndedConnection& ended);
  /// A client that dialled by RDMA-CM of port `port` is done.
  std::string on_ended(size_t port, const CmControl::EndedCaller& ended);
  size_t done() const;
  bool finished() const { return done() == clients_.size(); }
  /// One line for each client, finished or not.
  std::vector<ClientReport> reports() const;

 private:
  enum class State { kWaiting, kRunning, kDone };
  struct Client {
    const ClientConfig* config = nullptr;
    State state = State::kWaiting;
    Time dial_at;
    std::string refusal;  ///< of the last call by TCP
    CmControl::CallerId caller = 0;
    size_t port = 0;  ///< of the configuration
    ClientReport report;
  };

  void dial(Client& client);
  void dial_tcp(Client& client);
  void dial_cm(Client& client);
  Service self_of(const Client& client) const;
  void add_traffic(Client& client, const TrafficResult& result);
  void end(Client& client, const std::string& error);

  const Config& config_;
  PeerHost& host_;
  ServiceEndpoints& endpoints_;
  std::vector<CmControl*> cms_;
  std::vector<Client> clients_;
  std::map<ConnectionId, size_t> calls_;
  Time now_;  ///< of the last turn
};

}  // namespace understudy
