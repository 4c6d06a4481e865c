// Everything of a run that answers for emulated nodes beside the packet path: jobs, services,
// clients, RDMA-CM and NCCL's communicators, behind a clock and TCP that are somebody else's: the
// host's (live_run.h), or a virtual time's (virtual_control.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/compile/shard_config.h"
#include "ctrl/host_namespace/host_namespace.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/nccl/nccl_jobs.h"
#include "ctrl/peers/peer_host.h"
#include "ctrl/peers/ring/ring_watch.h"
#include "ctrl/report/run_report.h"
#include "ctrl/run/emulator.h"
#include "ctrl/services/active_clients.h"
#include "ctrl/services/client_log.h"
#include "ctrl/services/cm_control.h"
#include "ctrl/services/endpoints.h"

namespace understudy {

/// Which addresses are the emulated nodes', whoever carries their TCP.
HostNamespaceSpec emulated_addresses(const Config& config);

class EmulatedSide {
 public:
  using Say = std::function<void(const std::string&)>;
  using Now = std::function<Time()>;

  /// Takes the plans of all jobs that are not reference nodes'. All arguments outlive this; clients
  /// of services are noted in `report`. `reference`: the controls of reference nodes by port, null
  /// where there is none; empty: nowhere.
  static Result<std::unique_ptr<EmulatedSide>> create(const Config& config, Emulator& emulator,
                                                      RunReport& report, Now now, Say say,
                                                      std::vector<ShardControl*> reference = {});

  /// Of the host that open() is given.
  PeerHost::Callbacks callbacks();
  /// Listens on `host`, which outlives this; before it nothing comes by TCP.
  Result<void> open(PeerHost& host);

  /// Control's turn, once the host has had its own.
  void turn();
  /// Messages wait for their operation to become known, or there are more than a turn takes: the next
  /// one is to come soon.
  bool find_out() const;
  /// All that the configuration has to be done is done; false for runs that only serve.
  bool work_done() const;
  JobRunner& jobs() { return *jobs_; }
  std::string status() const;

  /// The run is about to end: tells the other sides of connections by RDMA-CM. Turns follow until
  /// quiet().
  void hang_up();
  bool quiet() const;

  // Once nothing runs any more.

  /// Clients, jobs and timeline into the report.
  void finish(bool timeline);
  /// What RDMA-CM counted into the report's ports, which are there.
  void report_cm();

 private:
  EmulatedSide(const Config& config, Emulator& emulator, RunReport& report, Now now, Say say);
  void open_cm();
  Result<void> open_services();
  Result<void> open_rings();
  void turn_rings();
  Result<void> open_feeds();
  Result<void> listen(NodeId node, unsigned nic, uint16_t port, const PeerHost::Acceptor& acceptor);
  Result<void> listen(NodeId node, unsigned nic, uint16_t port, PeerHost::PeerFactory factory);
  void probe(const IpAddress& local, const IpAddress& remote, std::function<void()> answered);
  void on_endpoint(NodeId node, ConnectionId id, const EndpointRequest& request);
  void on_ended(const EndedConnection& ended);
  bool has_others() const;
  /// What answers there, as the configuration names it.
  std::string_view kind_at(NodeId node, uint16_t port) const;

  const Config& config_;
  Emulator& emulator_;
  RunReport& report_;
  const Now now_;
  const Say say_;
  ClientLog client_log_;
  std::unique_ptr<JobRunner> jobs_;
  std::vector<ShardControl*> reference_;
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
