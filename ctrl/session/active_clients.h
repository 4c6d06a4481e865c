// Clients of the configuration: each dials its server in a real node, again while nobody listens
// there, and runs its test once.
#pragma once

#include <map>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/hostns/host_namespace.h"
#include "ctrl/peers/socket_adapter.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/endpoints.h"

namespace understudy {

class ActiveClients {
 public:
  /// All arguments outlive this.
  ActiveClients(const Config& config, const HostNamespace& host, SocketAdapter& sockets,
                ServiceEndpoints& endpoints);

  void poll(Time now);
  /// A dialled connection has ended. Returns what there is to say about it.
  std::string on_ended(Time now, const EndedConnection& ended);
  bool finished() const;
  /// One line for each client, finished or not.
  std::vector<ClientReport> reports() const;

 private:
  enum class State { kWaiting, kRunning, kDone };
  struct Client {
    const ClientConfig* config = nullptr;
    State state = State::kWaiting;
    Time dial_at;
    std::string refusal;  ///< of the last call
    ClientReport report;
  };

  void dial(Client& client);
  void end(Client& client, const std::string& error);

  const Config& config_;
  const HostNamespace& host_;
  SocketAdapter& sockets_;
  ServiceEndpoints& endpoints_;
  std::vector<Client> clients_;
  std::map<ConnectionId, size_t> calls_;
};

}  // namespace understudy
