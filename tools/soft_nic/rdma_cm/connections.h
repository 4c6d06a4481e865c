// RDMA-CM's ids and their connections: what rdma_*.cc call, over the communication manager of
// dataplane/cm; ids of datagrams (RDMA_PS_UDP) over its lookups. Its events wait in a program's
// event channel; a queue pair that belongs to an id is moved to RTS by the thread that takes the
// event, as librdmacm does it.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dataplane/cm/agent.h"
#include "dataplane/cm/lookups.h"
#include "tools/soft_nic/device/claims.h"
#include "tools/soft_nic/device/event_queue.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {

class Connections;
struct Id;

/// An event that a program gets, with what it points to.
struct ConnectionEvent {
  rdma_cm_event ibv{};
  std::vector<uint8_t> private_data;
  Id* id = nullptr;      ///< whose it is
  Id* waiter = nullptr;  ///< whose end waits for it to be acknowledged
  bool replied = false;  ///< the peer accepted: the queue pair has to be made ready
};

struct EventChannel {
  rdma_event_channel ibv{};
  EventQueue<ConnectionEvent*> events;

  EventChannel() { ibv.fd = events.fd(); }
  bool is_open() const { return ibv.fd >= 0; }
  static EventChannel& of(rdma_event_channel* c) { return *reinterpret_cast<EventChannel*>(c); }
};

/// An id. `ibv` is what the program has.
struct Id {
  explicit Id(Connections& all) : home(all) {}

  rdma_cm_id ibv{};
  Connections& home;
  std::unique_ptr<EventChannel> own_channel;  ///< of an id whose calls wait for their events
  CmId connection = 0;                        ///< 0: none
  CmId lookup = 0;                            ///< the same, of datagrams
  bool listens = false;
  bool active = false;
  uint64_t service = 0;
  std::vector<IpAddress> bound;  ///< addresses of ours that it may use
  IpAddress local;               ///< ... and the one that it uses
  bool only_v6 = false;          ///< bound to any IPv6 address, it takes no IPv4 one
  uint8_t traffic_class = 0;
  // What the two sides said, for the queue pair:
  Psn own_psn, peer_psn;
  Qpn own_qpn = 0, peer_qpn = 0;
  IpAddress peer;
  uint32_t mtu = 1024;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t retry_count = 7, rnr_retry = 7, ack_timeout = 19;
  uint32_t unacknowledged = 0;  ///< events that the program has not given back
  ibv_sa_path_rec path{};
  std::optional<ibv_qp_init_attr_ex> for_requests;  ///< queue pairs that requests get

  bool waits() const { return own_channel != nullptr; }
  bool has_datagrams() const { return ibv.ps == RDMA_PS_UDP; }
  static Id& of(rdma_cm_id* id) { return *reinterpret_cast<Id*>(id); }
};

/// All of it is called without the device's lock, but for what GsiHandler says.
class Connections final : public GsiHandler {
 public:
  /// `context`, of this device, is for all ids.
  Connections(Nic& nic, ibv_context* context);

  Nic& nic() { return nic_; }
  ibv_context* context() { return context_; }
  ibv_pd* domain() { return domain_; }  ///< for ids that are given none

  /// errnos of rdma_*(3), or 0. Calls of an id without a channel wait for their events.
  int make(rdma_event_channel* channel, rdma_port_space space, Id*& out);
  int listen(Id& id);
  int connect(Id& id, const rdma_conn_param& wanted);
  int accept(Id& id, const rdma_conn_param& wanted);
  int reject(Id& id, std::span<const uint8_t> private_data);
  int confirm(Id& id);
  int disconnect(Id& id);
  /// Ends what is left of its connection, and waits until the program has given its events back.
  void forget(Id& id);

  /// Moves an id and its events that wait to another channel; null: to one of its own. EMFILE.
  int migrate(Id& id, EventChannel* to);
  /// Queues an event of an id's own.
  void raise(Id& id, rdma_cm_event_type type, int status = 0);
  void acknowledge(ConnectionEvent& event);
  /// What a queue pair of this id needs to get to a state; 0 or EINVAL.
  int attributes(const Id& id, ibv_qp_state state, ibv_qp_attr& out, int& mask) const;
  /// The way to an id's peer.
  void fill_way(const Id& id, ibv_ah_attr& out) const;
  /// INIT to RTS.
  int make_ready(Id& id);

  /// In a child of fork(): what is claimed is the parent's.
  void disown();
  /// Whether any process on one of our addresses listens there.
  bool is_taken(uint64_t service) const;
  /// The process ends: says so to all peers, and stays until they have heard it, for two seconds at
  /// most. Programs may not use ids from here on; their queue pairs are gone.
  void leave();

  // GsiHandler
  void on_datagram(Time now, const CmEnds& ends, std::span<const uint8_t> bytes) override;
  void on_time(Time now) override;
  Time deadline() const override;

 private:
  void drain();
  void hear(const CmEvent& event);
  void hear_request(const CmEvent& event, const CmReq& request);
  void hear(const CmLookupEvent& event);
  void hear_lookup(const CmLookupEvent& event);
  void hear_answer(Id& id, const CmLookupEvent& event);
  Id* listener(const IpAddress& local, uint64_t service) const;
  /// An id for what a listener was asked; null when no channel can be made for it.
  Id* make_child(Id& parent, const CmEnds& ends, uint16_t port);
  /// The program has yet to take it.
  ConnectionEvent& make_request(Id& parent, Id& child, std::span<const uint8_t> private_data);
  static ConnectionEvent& make_event(Id& id, rdma_cm_event_type type, int status);
  /// Queues an event for its waiter.
  static void push(ConnectionEvent& event);
  int look_up(Id& id, const rdma_conn_param& wanted);
  int tell(Id& id, const rdma_conn_param& wanted);
  /// Ends what is left of an id's connection.
  void release(Id& id);
  void drop(Id* untaken);
  // connections_wire.cc
  CmIdRange claim_ids();
  bool claim_service(const Id& id);
  void give_service_back(const Id& id);
  bool answers_for_nobody(Time now, const IpAddress& local);
  bool is_nobodys(Time now, const CmEnds& ends, const std::string& claimed);
  void take_request(Time now, const CmEnds& ends, std::span<const uint8_t> mad);
  void deliver(Time now, const CmEnds& ends, std::span<const uint8_t> mad);
  void deliver_early(Time now, const Id& id);
  Psn draw_psn() {
    return Psn(
        static_cast<uint32_t>(seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL) >>
        8);
  }
  int answer(bool done);
  bool begin_to_leave();

  Nic& nic_;
  ibv_context* const context_;
  ibv_pd* const domain_;
  uint64_t seed_;
  using Service = std::pair<IpAddress, uint64_t>;
  /// To answer at an address for nobody.
  struct Nobody {
    std::optional<Claim> claim;
    Time asks_again;
  };
  std::vector<Claim> ids_claims_;  ///< one for each address
  std::map<IpAddress, Nobody> nobodies_;
  std::map<Service, Claim> service_claims_;
  struct Early {
    Time until;
    CmEnds ends;
    uint64_t service = 0;
    std::array<uint8_t, kMadBytes> mad{};
  };
  std::deque<Early> early_;  ///< requests that came before their service
  const CmIdRange ids_;
  CmAgent agent_;
  CmLookups lookups_;
  std::unordered_map<CmId, Id*> by_connection_, by_lookup_;
  std::vector<Id*> listeners_;
  std::condition_variable acknowledged_;  ///< under the device's lock
  bool leaving_ = false;
};

/// The one of this process' device; null with errno set where there is no device.
Connections* the_connections();

}  // namespace understudy::soft_nic
