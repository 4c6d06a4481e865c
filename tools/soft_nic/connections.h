// RDMA-CM's ids and their connections: what rdma_*.cc call, over the communication manager of
// dataplane/cm. Its events wait in a program's event channel; a queue pair that belongs to an id is
// moved to RTS by the thread that takes the event, as librdmacm does it.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <condition_variable>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/cm/agent.h"
#include "tools/soft_nic/event_queue.h"
#include "tools/soft_nic/nic.h"

namespace understudy::soft_nic {

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

  static EventChannel& of(rdma_event_channel* c) { return *reinterpret_cast<EventChannel*>(c); }
};

/// An id. `ibv` is what the program has.
struct Id {
  rdma_cm_id ibv{};
  CmId connection = 0;  ///< 0: none
  bool listens = false;
  bool active = false;
  uint64_t service = 0;
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

  static Id& of(rdma_cm_id* id) { return *reinterpret_cast<Id*>(id); }
};

/// All of it is called without the device's lock, but for what GeneralServices says.
class Connections final : public GeneralServices {
 public:
  explicit Connections(Nic& nic);

  /// errnos of rdma_*(3), or 0.
  int listen(Id& id);
  int connect(Id& id, const rdma_conn_param& wanted);
  int accept(Id& id, const rdma_conn_param& wanted);
  int reject(Id& id, std::span<const uint8_t> private_data);
  int confirm(Id& id);
  int disconnect(Id& id);
  /// Ends what is left of its connection, and waits until the program has given its events back.
  void forget(Id& id);

  /// Queues an event of an id's own.
  void raise(Id& id, rdma_cm_event_type type, int status = 0);
  void acknowledge(ConnectionEvent& event);
  /// What a queue pair of this id needs to get to a state; 0 or EINVAL.
  int attributes(const Id& id, ibv_qp_state state, ibv_qp_attr& out, int& mask) const;
  /// INIT to RTS.
  int make_ready(Id& id);

  /// The process ends: says so to all peers, and stays until they have heard it, for two seconds at
  /// most. Programs may not use ids from here on; their queue pairs are gone.
  void leave();

  // GeneralServices
  void on_datagram(Time now, const IpAddress& from, std::span<const uint8_t> bytes) override;
  void on_time(Time now) override;
  Time deadline() const override { return agent_.deadline(); }

 private:
  void drain();
  void hear(const CmEvent& event);
  void hear_request(const CmEvent& event, const CmReq& request);
  ConnectionEvent& push(Id& id, rdma_cm_event_type type, int status);
  Psn draw_psn() {
    return Psn(
        static_cast<uint32_t>(seed_ = seed_ * 6364136223846793005ULL + 1442695040888963407ULL) >>
        8);
  }
  int answer(bool done);
  bool begin_to_leave();

  Nic& nic_;
  uint64_t seed_;
  CmAgent agent_;
  std::unordered_map<CmId, Id*> by_connection_;
  std::vector<Id*> listeners_;
  std::condition_variable acknowledged_;  ///< under the device's lock
  bool leaving_ = false;
};

/// The one of this process' device; null with errno set where there is no device.
Connections* the_connections();
/// A context of this process' device for all ids.
ibv_context* the_context();

}  // namespace understudy::soft_nic
