// Joins peers to sockets: a single-threaded epoll loop that owns listeners and connections, gives
// each new connection a machine from its listener's factory, and carries bytes both ways.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ctrl/peers/peer_carrier.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

class SocketAdapter final : public PeerCarrier {
 public:
  struct Callbacks : PeerHost::Callbacks {
    std::function<Time()> now;
    /// The sockets of listen(), listen_at() and call(), non-blocking: as HostNamespace's
    /// listen_any(), listen_tcp() and connect_tcp().
    std::function<Result<int>(const IpAddress& any, uint16_t port)> listen = {};
    std::function<Result<int>(const IpAddress& address, uint16_t port)> listen_at = {};
    std::function<Result<int>(const IpAddress& from, const IpAddress& to, uint16_t port)> connect =
        {};
  };

  static Result<SocketAdapter> create(Callbacks callbacks);

  /// Takes over a listening non-blocking socket on an address of `node`.
  Result<void> add_listener(int fd, NodeId node, Acceptor acceptor);

  Time now() const override { return callbacks_.now(); }
  Result<uint16_t> listen(const IpAddress& any, uint16_t port, Acceptor acceptor) override;
  using PeerHost::listen_at;
  Result<void> listen_at(const SocketAddress& at, NodeId node, Acceptor acceptor) override;
  Result<ConnectionId> call_for(NodeId node, const IpAddress& from, const SocketAddress& to,
                                std::unique_ptr<Peer> peer) override;

  /// Waits up to `timeout_ms` (0: not at all) and handles what has come.
  void poll(int timeout_ms);

 private:
  struct Listener {
    UniqueFd fd;
    NodeId node = kNoNode;
    Acceptor acceptor;
  };
  struct Socket {
    UniqueFd fd;
    std::vector<uint8_t> unsent;
    bool connecting = false;  ///< a dialled one that does not stand yet
    bool waits = false;       ///< watched for room to send instead of bytes to read
  };

  SocketAdapter(UniqueFd epoll, Callbacks callbacks)
      : PeerCarrier(static_cast<const PeerHost::Callbacks&>(callbacks)),
        epoll_(std::move(epoll)),
        callbacks_(std::move(callbacks)) {}

  void write(ConnectionId id, std::span<const uint8_t> bytes) override;
  bool push(ConnectionId id) override;
  void close(ConnectionId id) override { sockets_.erase(id); }

  void accept_from(const Listener& listener);
  void finish_call(ConnectionId id, Socket& socket);
  void read_from(ConnectionId id);
  void watch(ConnectionId id, const Socket& socket, int operation) const;

  UniqueFd epoll_;
  Callbacks callbacks_;
  std::map<uint64_t, Listener> listeners_;
  std::map<ConnectionId, Socket> sockets_;
};

}  // namespace understudy
