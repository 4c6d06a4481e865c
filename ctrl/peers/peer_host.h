// All that carries the machines of emulated nodes' TCP offers a run: what machines themselves need
// (PeerNetwork), listeners and calls of a node, and the answers to what machines ask for. The
// host's sockets are one (SocketAdapter), TCP of our own in virtual time is another (VirtualHost).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "ctrl/peers/peer_network.h"

namespace understudy {

class PeerHost : public PeerNetwork {
 public:
  using PeerFactory = std::function<std::unique_ptr<Peer>()>;

  struct Callbacks {
    /// To be answered once by endpoint_ready or endpoint_refused, per connection in order; may be
    /// from within the callback.
    std::function<void(NodeId, ConnectionId, const EndpointRequest&)> endpoint;
    /// This queue pair's client waits for our first message (Peer::take_starts).
    std::function<void(const EndpointStart&)> start;
    /// Never from within calls of a machine.
    std::function<void(const EndedConnection&)> ended;
  };

  /// Takes calls to one address of `node`. Error: it is not an emulated one, or taken.
  virtual Result<void> listen_at(const SocketAddress& at, NodeId node, Acceptor acceptor) = 0;
  /// The same, where all calls are taken by equal machines.
  Result<void> listen_at(const SocketAddress& at, NodeId node, PeerFactory factory) {
    return listen_at(at, node, Acceptor([factory = std::move(factory)](const AcceptedConnection&) {
                       return factory();
                     }));
  }
  /// call() for a connection of `node`.
  virtual Result<ConnectionId> call_for(NodeId node, const IpAddress& from, const SocketAddress& to,
                                        std::unique_ptr<Peer> peer) = 0;
  Result<ConnectionId> call(const IpAddress& from, const SocketAddress& to,
                            std::unique_ptr<Peer> peer) final {
    return call_for(kNoNode, from, to, std::move(peer));
  }

  /// Answers; for a connection that has ended meanwhile they do nothing and say false.
  virtual bool endpoint_ready(ConnectionId id, const EndpointReady& ready) = 0;
  virtual bool endpoint_refused(ConnectionId id, const std::string& reason) = 0;
  virtual bool traffic_ended(ConnectionId id, const TrafficResult& result) = 0;

  virtual size_t connection_count() const = 0;
};

}  // namespace understudy
