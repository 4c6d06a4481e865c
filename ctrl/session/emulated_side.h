// Everything of a run that answers for emulated nodes beside the packet path: jobs, services,
// clients, RDMA-CM and NCCL's communicators, behind a clock and TCP that are somebody else's: the
// host's (live_run.h), or a virtual time's (kernel_run.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/build/rail.h"
#include "ctrl/hostns/host_namespace.h"
#include "ctrl/peers/peer_host.h"
#include "ctrl/peers/ring_watch.h"
#include "ctrl/report/run_report.h"
#include "ctrl/session/active_clients.h"
#include "ctrl/session/client_log.h"
#include "ctrl/session/cm_control.h"
#include "ctrl/session/endpoints.h"
#include "ctrl/session/job_runner.h"
#include "ctrl/session/nccl_jobs.h"

namespace understudy {

/// Which addresses are the emulated nodes', whoever carries their TCP.
HostNamespaceSpec emulated_addresses(const Config& config);

class EmulatedSide {
 public:
  using Say = std::function<void(const std::string&)>;
  using Now = std::function<Time()>;

  struct Shards {
    std::vector<PortList> ports;          ///< of each shard
    std::vector<ShardControl*> controls;  ///< of each shard
    const Topology* topology = nullptr;   ///< of a network of switches
    std::vector<ShardControl*> by_port() const;
  };

  /// All arguments outlive this; clients of services are noted in `report`.
  static Result<std::unique_ptr<EmulatedSide>> create(
      const Config& config, Shards shards, std::vector<std::unique_ptr<CollectiveSetup>> setups,
      RunReport& report, Now now, Say say);

  /// Of the host that open() is given.
  PeerHost::Callbacks callbacks();
  /// Listens on `host`, which outlives this; before it nothing comes by TCP.
  Result<void> open(PeerHost& host);

  /// Control's turn, once the host has had its own.
  void turn();
  /// Messages wait for their operation to become known: the next turn is to come soon.
  bool find_out() { return jobs_->find_out(); }
  /// All that the configuration has to be done is done; false for runs that only serve.
  bool work_done() const;
  JobRunner& jobs() { return *jobs_; }
  std::string status() const;

  /// The run is about to end: tells the other sides of connections by RDMA-CM. Turns follow until
  /// quiet().
  void hang_up();
  bool quiet() const;
  /// Clients, jobs and timeline into the report. Nothing runs any more.
  void finish(bool timeline);
  NamedCounts cm_counters(size_t shard) const { return cms_[shard]->counters(); }

 private:
  EmulatedSide(const Config& config, Shards shards, RunReport& report, Now now, Say say);
  void open_cm();
  Result<void> open_services();
  Result<void> open_rings();
  void turn_rings();
  Result<void> open_feeds();
  Result<void> listen(NodeId node, unsigned nic, uint16_t port, PeerHost::Acceptor acceptor);
  Result<void> listen(NodeId node, unsigned nic, uint16_t port, PeerHost::PeerFactory factory);
  void probe(const IpAddress& local, const IpAddress& remote, std::function<void()> answered);
  void on_endpoint(NodeId node, ConnectionId id, const EndpointRequest& request);
  void on_ended(const EndedConnection& ended);
  /// What answers there, as the configuration names it.
  std::string_view kind_at(NodeId node, uint16_t port) const;

  const Config& config_;
  const Shards shards_;
  RunReport& report_;
  const Now now_;
  const Say say_;
  ClientLog client_log_;
  std::unique_ptr<JobRunner> jobs_;
  std::optional<RingWatch> watch_;  ///< of their real ranks
  std::unique_ptr<ServiceEndpoints> endpoints_;
  std::vector<std::unique_ptr<CmControl>> cms_;  ///< of each shard, on its first port
  PeerHost* host_ = nullptr;
  std::optional<NcclJobs> nccl_;
  std::unique_ptr<ActiveClients> dialling_;
  std::map<ConnectionId, ServiceReport> clients_;
  std::map<ConnectionId, RingPeer*> rings_;  ///< connections of real ranks, while they last
};

}  // namespace understudy
