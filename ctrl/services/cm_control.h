// RDMA-CM of all emulated nodes behind the ports of one shard: runs the connection machine in
// control's thread, and makes and removes the queue pairs of its connections. cm_control.cc has
// what both sides need and the services, cm_calls.cc our own clients.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ctrl/peers/cm_caller.h"
#include "ctrl/peers/cm_service.h"
#include "ctrl/report/run_report.h"
#include "ctrl/services/cm_probes.h"
#include "ctrl/services/endpoints.h"
#include "ctrl/shards/shard_control.h"
#include "dataplane/cm/agent.h"

namespace understudy {

/// Until a server that refused is dialled again.
inline constexpr Duration kDialAgain = Duration::ms(200);

class CmControl {
 public:
  using CallerId = uint32_t;  ///< of a client of ours; never 0

  /// A client of ours is done; its connections are being closed.
  struct EndedCaller {
    CallerId id = 0;
    std::string failure;  ///< empty if it went well
  };
  struct Callbacks {
    std::function<void(const ServiceReport&)> ended;  ///< a client's connection
    std::function<void(const std::string&)> say;      ///< a line for a person
    std::function<void(const EndedCaller&)> caller_ended;
  };

  /// `port`: of the configuration, the first one of `control`'s shard.
  CmControl(const Config& config, size_t port, ShardControl& control, ServiceEndpoints& endpoints,
            Callbacks callbacks);

  /// Opens the services whose clients may come by RDMA-CM, on the rails of the shard's ports.
  void listen();
  /// Takes over a client of `node` that dials TCP port `port` of RDMA-CM's, again while nobody
  /// listens there. Its addresses are those of its calls.
  CallerId dial(NodeId node, uint16_t port, std::unique_ptr<CmCaller> caller);
  /// Why the last call of this client was not taken; empty if none was refused, or it has ended.
  std::string refusal(CallerId id) const;
  /// Asks, once, whether anybody answers there, as CmProbes says; `answered` runs in poll().
  void probe(const IpAddress& local, const IpAddress& remote, std::function<void()> answered) {
    probes_.ask(local, remote, std::move(answered));
  }
  /// Traffic of a queue pair has ended. The client of ours whose it is, or 0.
  CallerId traffic_ended(Time now, uint64_t connection, const TrafficResult& result);

  /// Takes what is due and at most so many of the messages that have come, and sends what there is to
  /// say: a real node that floods leaves time for what else control has to do.
  void poll(Time now, size_t most = std::numeric_limits<size_t>::max());
  /// There are more, perhaps.
  bool is_behind() const { return behind_; }
  /// The run is about to end: closes all connections, and makes no more of them.
  void hang_up(Time now);
  /// No connection is left that the other side has yet to see closed.
  bool quiet() const;
  /// Ends all reports at `now`.
  void finish(Time now);
  NamedCounts counters() const;

 private:
  struct Listener {
    NodeId node = kNoNode;
    Duration accept_delay;
    std::unique_ptr<CmService> service;
  };
  struct Caller {
    NodeId node = kNoNode;
    uint16_t port = 0;
    std::unique_ptr<CmCaller> machine;
    std::string refusal;
    bool ended = false;
  };
  struct Connection {
    CmMachine* machine = nullptr;
    CmMachine::Id name = 0;  ///< as the machine calls it
    CallerId caller = 0;     ///< whose connection it is; 0: a client came to a service
    CmCall call;             ///< of a caller
    Qpn qpn = 0;
    bool open = true;      ///< neither side has closed it yet
    bool bound = false;    ///< accepted or dialled: its queue pair stays until time-wait is over
    ServiceReport report;  ///< of a service's client
  };
  struct Accept {
    CmId id = 0;
    CmAccept what;
  };
  struct Redial {  ///< a call that is yet to be made
    CallerId caller = 0;
    CmCall call;
  };

  void listen(unsigned rail);
  void hear(Time now);
  void on_notice(const Notice& notice, std::span<const uint8_t> bytes);
  void on_event(Time now, const CmEvent& event);
  void on_request(Time now, const CmEvent& event);
  void accept(Time now, const Accept& accept);
  void close(Time now, CmId id, const std::string& error);
  bool part(Time now, CmId id);
  void release(CmId id);
  void collect(Time now);
  void collect(CmMachine& machine);
  void flush();
  void send(const CmSend& send);
  /// Name of a connection among those of TCP clients and other ports.
  uint64_t key(CmId id) const { return uint64_t{1} << 63 | uint64_t{port_} << 32 | id; }
  /// The open connection that this machine calls so, or 0.
  CmId find(const CmMachine& machine, CmMachine::Id name) const;

  // cm_calls.cc
  void dial(Time now, CallerId caller, const CmCall& call);
  void on_reply(Time now, const CmEvent& event);
  void on_rejected_call(Time now, const CmEvent& event);
  bool serve_callers(Time now);
  void end_caller(CallerId id, Caller& caller);

  const Config& config_;
  size_t port_;
  ShardControl& control_;
  ServiceEndpoints& endpoints_;
  Callbacks callbacks_;
  CmAgent agent_;
  CmProbes probes_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::map<std::pair<IpAddress, uint16_t>, Listener*> by_port_;
  std::map<CallerId, Caller> callers_;
  std::multimap<Time, Redial> redials_;
  std::multimap<Time, Accept> accepts_;  ///< of slow services
  std::map<CmId, Connection> connections_;
  std::map<std::pair<const CmMachine*, CmMachine::Id>, CmId> by_name_;  ///< open ones
  std::map<Qpn, CmId> by_qpn_;
  std::set<CmId> closing_;  ///< to be closed once all was delivered
  /// The real node has been found: before, a call's time would run while it waits for that.
  enum class Found : uint8_t { kNo, kAsked, kYes };
  Found found_ = Found::kNo;
  bool behind_ = false;
  bool hanging_up_ = false;
};

}  // namespace understudy
