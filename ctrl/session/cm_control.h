// RDMA-CM of all emulated nodes behind one port: runs the connection machine in control's thread,
// and makes and removes the queue pairs of its connections.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ctrl/peers/cm_service.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/endpoints.h"
#include "ctrl/session/shard_control.h"
#include "dataplane/cm/agent.h"

namespace understudy {

class CmControl {
 public:
  struct Callbacks {
    std::function<void(const ServiceReport&)> ended;  ///< a client's connection
    std::function<void(const std::string&)> say;      ///< a line for a person
  };

  /// `port`: of the configuration, to which `control` belongs.
  CmControl(const Config& config, size_t port, ShardControl& control, ServiceEndpoints& endpoints,
            Callbacks callbacks);

  /// Opens the services of the port's rail whose clients may come by RDMA-CM.
  void listen();
  /// Takes what the shard tells and what is due, and sends what there is to say.
  void poll(Time now);
  /// Ends all reports at `now`.
  void finish(Time now);
  NamedCounts counters() const;

 private:
  struct Listener {
    NodeId node = kNoNode;
    std::unique_ptr<CmService> service;
  };
  struct Connection {
    Listener* listener = nullptr;
    Qpn qpn = 0;
    bool open = true;  ///< its client has not gone yet
    ServiceReport report;
  };

  void on_notice(const Notice& notice, std::span<const uint8_t> bytes);
  void on_event(Time now, const CmEvent& event);
  void on_request(Time now, const CmEvent& event);
  void close(Time now, CmId id, const std::string& error);
  void collect(Time now);
  void send(const CmSend& send);
  /// Name of a connection among those of TCP clients and other ports.
  uint64_t key(CmId id) const { return uint64_t{1} << 63 | uint64_t{port_} << 32 | id; }

  const Config& config_;
  size_t port_;
  ShardControl& control_;
  ServiceEndpoints& endpoints_;
  Callbacks callbacks_;
  CmAgent agent_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::map<std::pair<IpAddress, uint16_t>, Listener*> by_port_;
  std::map<CmId, Connection> connections_;
  std::map<Qpn, CmId> by_qpn_;
  std::set<CmId> closing_;  ///< to be closed once all was delivered
};

}  // namespace understudy
