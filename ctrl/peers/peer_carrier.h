// What every PeerHost does with its connections' machines, whatever carries the bytes: tells them
// what has come, collects what they have produced, and says what a connection was in the end.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/peer_host.h"

namespace understudy {

class PeerCarrier : public PeerHost {
 public:
  void flush(ConnectionId id) final;
  void drop(ConnectionId id) final;
  bool endpoint_ready(ConnectionId id, const EndpointReady& ready) final;
  bool endpoint_refused(ConnectionId id, const std::string& reason) final;
  bool traffic_ended(ConnectionId id, const TrafficResult& result) final;
  size_t connection_count() const final { return connections_.size(); }

 protected:
  explicit PeerCarrier(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  /// Of a connection or anything else that shares their numbers.
  ConnectionId new_id() { return next_id_++; }
  /// Both begin a connection; `id` is a new one. A dialled one stands after on_connected().
  void add_accepted(const AcceptedConnection& accepted, NodeId node, std::unique_ptr<Peer> peer);
  void add_dialled(ConnectionId id, NodeId node, const SocketAddress& server,
                   std::unique_ptr<Peer> peer);

  /// What has come for a connection; nothing for one that has ended.
  void on_connected(ConnectionId id);
  void on_bytes(ConnectionId id, std::span<const uint8_t> bytes);
  /// The other side has closed it, or it broke.
  void on_closed(ConnectionId id);
  /// A dialled one will never stand.
  void on_not_connected(ConnectionId id, const std::string& why, bool refused);
  /// All that was written has gone.
  void on_sent(ConnectionId id);

  /// Tells of connections that have ended. Not from within calls of a machine.
  void report_ended();
  bool has_ended() const { return !ended_.empty(); }  ///< report_ended() has something to do

 private:
  struct Connection {
    std::unique_ptr<Peer> peer;
    EndedConnection end;  ///< what is to be told
    bool closed = false;  ///< the machine knows that the other side is gone
    bool ended = false;   ///< to be told of and removed when no call is under way
  };

  /// Queues bytes for the other side.
  virtual void write(ConnectionId id, std::span<const uint8_t> bytes) = 0;
  /// Sends what has been queued. False: some of it has to wait, on_sent() will tell.
  virtual bool push(ConnectionId id) = 0;
  /// Our end is closed: what push() has taken is still delivered, nothing more is wanted of it.
  virtual void close(ConnectionId id) = 0;

  /// Null: there is no such connection or it has ended.
  Connection* open(ConnectionId id);
  /// Collects what the machine has produced and carries it on.
  void carry(ConnectionId id, Connection& connection);
  void end(ConnectionId id, Connection& connection);

  Callbacks callbacks_;
  ConnectionId next_id_ = 1;
  std::map<ConnectionId, Connection> connections_;
  std::deque<ConnectionId> ended_;
};

}  // namespace understudy
