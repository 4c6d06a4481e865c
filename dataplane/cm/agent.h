// The communication manager of emulated nodes: MADs, times and a consumer's wishes go in; MADs and
// events come out. No socket, clock or thread. One agent serves all nodes behind a port; a
// connection is known by the communication id that the agent gave it.
//
// Passive: kRequest -> accept() or reject() -> kEstablished. Active: connect() -> kReply ->
// confirm() -> kEstablished. Either: disconnect() or the peer's DREQ -> kDisconnected. Whatever was
// accepted or connected ends with kReleased, after time-wait: only then may its queue pair number
// be used again (rule A9.10). Who needs long to accept says so before: announce().
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/cm/connection.h"
#include "dataplane/cm/mad.h"

namespace understudy {

/// Which communication ids are an agent's: several on one address know theirs by them.
struct CmIdRange {
  uint32_t first = 0;           ///< its bits that `mask` has are zero
  uint32_t mask = 0xffff'ffff;  ///< bits that tell ids of the range apart
  bool contains(CmId id) const { return (id & ~mask) == first; }
  /// The next one behind the `last`-th, of those that `taken` does not say are.
  template <typename Taken>
  CmId next(uint32_t& last, Taken taken) const {
    CmId id = 0;
    do {
      id = first | (++last & mask);
    } while (id == 0 || taken(id));
    return id;
  }
};

struct CmAgentConfig {
  uint64_t seed = 1;     ///< of communication and transaction ids
  uint64_t ca_guid = 1;  ///< told to peers
  CmIdRange ids;
  uint32_t max_connections = 16384;  ///< in any state; more are rejected: no resources
  uint32_t max_mtu = 4096;           ///< largest path MTU that a REQ may ask for
  uint8_t response_timeout = 20;     ///< 4.096 us << n: what peers are told of our answers' time
  uint8_t max_retries = 15;          ///< of our REQs, and what we tell peers about theirs
  /// Most that an answer to one message is waited for, all repetitions and MRAs included, whatever
  /// times the peer's fields name (up to 2.4 hours each): who never answers must not hold places.
  /// Linux's fields (20, 15 retries, an ACK timeout up to 19) ask for 103 s.
  Duration longest_wait = Duration::s(120);
  /// Most that a DREP is waited for before the DREQ goes again, where the fields name more: no
  /// consumer has to make up its mind for it, as for a REP.
  Duration longest_dreq_wait = Duration::s(120);
  /// Most of time-wait, which the REQ's ACK timeout tells (rule A9.10); codes up to 21 fit.
  Duration longest_time_wait = Duration::s(10);
};

/// A datagram to be sent from QP1 of one node to QP1 of another.
struct CmSend {
  CmEnds ends;
  std::array<uint8_t, kMadBytes> bytes{};
};

enum class CmEventKind : uint8_t {
  kRequest,      ///< `message` is the REQ: accept() or reject() it
  kReply,        ///< `message` is the REP: confirm() once the queue pair is ready, or reject()
  kEstablished,  ///< passive: RTU or data came; active: confirmed
  kRejected,     ///< `message` is the REJ
  kFailed,       ///< the peer did not answer
  kDisconnected,
  kReleased,  ///< out of time-wait; the id is gone
};

struct CmEvent {
  CmEventKind kind = CmEventKind::kReleased;
  CmId id = 0;
  CmEnds ends;
  CmMessage message;
};

/// What a passive consumer puts into its REP.
struct CmAccept {
  Qpn qpn = 0;
  Psn psn;  ///< at which the peer shall begin to send
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t target_ack_delay = 15;
  /// Whether our ACKs count receives; false: their credits are "no limit" always (IBTA 12.7.26).
  bool flow_control = false;
  uint8_t rnr_retry = 7;
  std::vector<uint8_t> private_data;  ///< at most 196 bytes
};

/// What an active consumer puts into its REQ.
struct CmConnect {
  CmId id = 0;  ///< of take_id(); 0: connect() takes one
  CmEnds ends;
  uint64_t service_id = 0;
  Qpn qpn = 0;
  Psn psn;
  uint32_t mtu = 1024;
  uint8_t responder_resources = 0, initiator_depth = 0;
  bool flow_control = false;  ///< as in CmAccept
  uint8_t retry_count = 7, rnr_retry = 7;
  uint8_t ack_timeout = 19;
  uint8_t traffic_class = 0;
  std::vector<uint8_t> private_data;  ///< at most 92 bytes, RDMA-CM's header included
};

struct CmCounters {
  uint64_t received = 0, sent = 0;
  uint64_t malformed = 0;   ///< no message of the communication manager
  uint64_t unexpected = 0;  ///< of no connection, or out of place in its state
  uint64_t duplicates = 0;  ///< repeated by the peer
  uint64_t repeated = 0;    ///< repeated by us
  uint64_t timeouts = 0;    ///< of connections that got no answer to any repetition
  uint64_t rejected = 0;    ///< REJs sent
  uint64_t stale = 0;       ///< connections whose peer's queue pair asked anew
  uint64_t established = 0;
};

class CmAgent {
 public:
  explicit CmAgent(const CmAgentConfig& config) : config_(config) {}

  /// REQs for this service id on this address become events; others are rejected. There are no
  /// services of datagrams: who looks for one is told so (rule A9.13).
  void listen(const IpAddress& local, uint64_t service_id) {
    listeners_.insert({local, service_id});
  }

  /// They are rejected from now on; those that have become events are the consumer's.
  void ignore(const IpAddress& local, uint64_t service_id) {
    listeners_.erase({local, service_id});
  }

  void on_mad(Time now, const CmEnds& ends, std::span<const uint8_t> bytes);
  /// Data came to a connection's queue pair: they stand for an RTU that was lost (rule A9.4).
  void on_data(Time now, Qpn local_qpn);
  void on_time(Time now);
  Time deadline() const { return timers_.empty() ? Time::never() : timers_.begin()->first; }

  /// All false where the connection is not in the state for it (it may have ended meanwhile).
  /// An answer to this request will take `delay` from now. A peer that does not wait so long is
  /// told by an MRA now, others only if they ask again (rule A9.8).
  bool announce(Time now, CmId id, Duration delay);
  bool accept(Time now, CmId id, const CmAccept& accept);
  /// A REQ or REP that came; or takes back a REQ of ours that was not answered, as if its time were
  /// over.
  bool reject(Time now, CmId id, RejReason reason, std::span<const uint8_t> private_data = {});
  bool confirm(Time now, CmId id);
  bool disconnect(Time now, CmId id);
  /// The consumer goes: whatever it has is disconnected or rejected, and nobody listens any more.
  void close(Time now);
  /// Whether somebody may still need this agent: it has yet to hear a DREP, or a peer whose DREQ it
  /// answered less than `patience` ago asks again if that answer was lost (rule A9.10).
  bool is_needed(Time now, Duration patience) const;
  /// An id for a connect() to come, for who must name things by it before.
  CmId take_id() { return fresh_id(); }
  /// Nothing when there are too many connections.
  std::optional<CmId> connect(Time now, const CmConnect& request);

  /// What is to be sent and what happened since the last call, in order.
  std::vector<CmSend> take_sends() { return std::exchange(sends_, {}); }
  std::vector<CmEvent> take_events() { return std::exchange(events_, {}); }
  const CmCounters& counters() const { return counters_; }
  size_t connections() const { return connections_.size(); }

 private:
  using Connection = CmConnection;

  // agent_messages.cc
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmReq& req);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmMra& mra);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmRej& rej);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmRep& rep);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmRtu& rtu);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmDreq& dreq);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmDrep& drep);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmLap& lap);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmApr& apr);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmSidrReq& req);
  void on_message(Time now, const CmEnds& ends, uint64_t tid, const CmSidrRep& rep);
  void on_duplicate_req(Time now, Connection& c);
  std::optional<RejReason> fault_of(const CmEnds& ends, const CmReq& req) const;
  void refuse(const CmEnds& ends, uint64_t tid, const CmReq& req, RejReason reason);
  Connection* find(const CmEnds& ends, uint32_t local_id, uint32_t remote_id);
  Connection* rejected_by(const CmEnds& ends, const CmRej& rej);

  // agent.cc
  Connection* by_id(CmId id);
  Connection& add(const CmEnds& ends, CmId id);
  void erase(CmId id);
  void set_timer(Connection& c, Time at);
  void await(Time now, Connection& c, const CmMad& mad);
  /// How long to wait for an answer, once; all repetitions fit into the longest wait.
  Duration bounded_wait(Duration wait, uint8_t retries) const {
    return std::min(wait, config_.longest_wait / (retries + 1));
  }
  void send_mra(Time now, const Connection& c);
  void enter_time_wait(Time now, Connection& c);
  void establish(Time now, Connection& c);
  void send_rej(Connection& c, CmSubject subject, RejReason reason,
                std::span<const uint8_t> private_data = {});
  void on_timer(Time now, Connection& c);
  void send(const CmEnds& ends, const CmMad& mad);
  void emit(CmEventKind kind, const Connection& c, CmMessage message = {});
  void unexpected() { ++counters_.unexpected; }
  CmId fresh_id();
  uint64_t fresh_tid() { return config_.seed << 32 ^ ++last_tid_; }

  using ListenKey = std::pair<IpAddress, uint64_t>;
  struct RemoteKey {  ///< a peer's name of a connection, or its queue pair
    uint64_t guid = 0;
    uint32_t number = 0;
    IpAddress local;
    auto operator<=>(const RemoteKey&) const = default;
  };
  static RemoteKey name_of(const Connection& c) {
    return {c.remote_guid, c.remote_id, c.ends.local};
  }

  CmAgentConfig config_;
  std::set<ListenKey> listeners_;
  std::unordered_map<CmId, Connection> connections_;
  std::map<RemoteKey, CmId> by_remote_id_;                  ///< passive ones
  std::map<std::pair<uint64_t, Qpn>, CmId> by_remote_qpn_;  ///< by CA; none in time-wait
  std::unordered_map<Qpn, CmId> by_local_qpn_;
  std::set<std::pair<Time, CmId>> timers_;
  uint32_t last_id_ = 0;
  uint32_t last_tid_ = 0;
  std::vector<CmSend> sends_;
  std::vector<CmEvent> events_;
  CmCounters counters_;
};

}  // namespace understudy
