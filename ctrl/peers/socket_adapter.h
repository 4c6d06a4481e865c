// Joins peers to sockets: a single-threaded epoll loop that owns listeners and connections, gives
// each new connection a machine from its listener's factory, and carries bytes both ways. Wishes
// for queue pairs go out by a callback; their answers come in later (or from within the callback).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/unique_fd.h"
#include "ctrl/peers/peer_network.h"

namespace understudy {

class SocketAdapter final : public PeerNetwork {
 public:
  using PeerFactory = std::function<std::unique_ptr<Peer>()>;
  struct Callbacks {
    std::function<Time()> now;
    /// To be answered once by endpoint_ready or endpoint_refused, per connection in order.
    std::function<void(NodeId, ConnectionId, const EndpointRequest&)> endpoint;
    /// This queue pair's client waits for our first message (Peer::take_starts).
    std::function<void(const EndpointStart&)> start;
    std::function<void(const EndedConnection&)> ended;
    /// The sockets of listen() and call(), non-blocking: as HostNamespace's listen_any() and
    /// connect_tcp().
    std::function<Result<int>(const IpAddress& any, uint16_t port)> listen = {};
    std::function<Result<int>(const IpAddress& from, const IpAddress& to, uint16_t port)> connect =
        {};
  };

  static Result<SocketAdapter> create(Callbacks callbacks);

  /// Takes over a listening non-blocking socket on an address of `node`.
  Result<void> add_listener(int fd, NodeId node, PeerFactory factory);
  /// The same, where what takes a connection depends on it.
  Result<void> add_listener(int fd, NodeId node, Acceptor acceptor);

  /// Takes over a non-blocking socket of `node` that is connecting to a server.
  Result<ConnectionId> add_call(int fd, NodeId node, const IpAddress& server, uint16_t port,
                                std::unique_ptr<Peer> peer);

  Time now() const override { return callbacks_.now(); }
  Result<uint16_t> listen(const IpAddress& any, uint16_t port, Acceptor acceptor) override;
  Result<ConnectionId> call(const IpAddress& from, const SocketAddress& to,
                            std::unique_ptr<Peer> peer) override;
  void flush(ConnectionId id) override;
  void drop(ConnectionId id) override { connections_.erase(id); }

  /// Waits up to `timeout_ms` (0: not at all) and handles what has come.
  void poll(int timeout_ms);

  /// Answers; for a connection that has ended meanwhile they do nothing and say false.
  bool endpoint_ready(ConnectionId id, const EndpointReady& ready);
  bool endpoint_refused(ConnectionId id, const std::string& reason);

  bool traffic_ended(ConnectionId id, const TrafficResult& result);

  size_t connection_count() const { return connections_.size(); }

 private:
  struct Listener {
    UniqueFd fd;
    NodeId node = kNoNode;
    Acceptor acceptor;
  };
  struct Connection {
    UniqueFd fd;
    NodeId node = kNoNode;
    uint16_t port = 0;
    IpAddress client;
    std::unique_ptr<Peer> peer;
    std::vector<uint8_t> unsent;
    bool ended = false;  ///< to be removed when no call is under way
    bool dialled = false;
    bool connecting = false;  ///< a dialled one that does not stand yet
    std::string refusal;      ///< why it never stood
    bool refused = false;     ///< by the other side
  };

  SocketAdapter(UniqueFd epoll, Callbacks callbacks)
      : epoll_(std::move(epoll)), callbacks_(std::move(callbacks)) {}

  void accept_from(const Listener& listener);
  void finish_call(ConnectionId id, Connection& connection);
  void read_from(ConnectionId id, Connection& connection);
  /// Collects what the machine has produced and carries it on.
  void carry(ConnectionId id, Connection& connection);
  void send_unsent(ConnectionId id, Connection& connection);
  void watch(ConnectionId id, const Connection& connection, int operation) const;
  void remove_ended();

  UniqueFd epoll_;
  Callbacks callbacks_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Listener> listeners_;
  std::map<ConnectionId, Connection> connections_;
};

}  // namespace understudy
