// The emulated nodes' TCP in memory, as SocketAdapter is it on the host: jobs of NCCL's meet
// reference ranks by it in virtual time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ctrl/peers/peer_network.h"
#include "tests/nccl_rank/network.h"

namespace understudy::nccl_rank {

class MemoryPeers final : public PeerNetwork, public NetworkUser {
 public:
  struct Callbacks {
    std::function<Time()> now;
    std::function<Result<EndpointReady>(ConnectionId, const EndpointRequest&)> endpoint;
    std::function<void(const EndedConnection&)> ended;
  };
  /// `addresses`: of the emulated nodes.
  MemoryPeers(MemoryNetwork& network, std::vector<IpAddress> addresses, Callbacks callbacks)
      : network_(network), addresses_(std::move(addresses)), callbacks_(std::move(callbacks)) {}

  /// Tells of connections that have ended.
  void poll();
  size_t connections() const { return connections_.size(); }

  Time now() const override { return callbacks_.now(); }
  Result<uint16_t> listen(const IpAddress& any, uint16_t port, Acceptor acceptor) override;
  /// Refused where nobody listens.
  Result<ConnectionId> call(const IpAddress& from, const SocketAddress& to,
                            std::unique_ptr<Peer> peer) override;
  void flush(ConnectionId id) override;
  void drop(ConnectionId id) override;

  void on_accepted(Id listener, Id stream, const SocketAddress& from) override;
  void on_connected(Id stream) override;
  void on_bytes(Id stream, std::span<const uint8_t> bytes) override;
  void on_closed(Id stream, const std::string& why) override;

 private:
  struct Listener {
    SocketAddress at;
    std::shared_ptr<Acceptor> acceptor;
  };
  struct Connection {
    std::unique_ptr<Peer> peer;
    EndedConnection end;  ///< what is to be told
    bool ended = false;
  };
  Connection* open(Id stream);
  void carry(Id stream, Connection& connection);

  MemoryNetwork& network_;
  const std::vector<IpAddress> addresses_;
  const Callbacks callbacks_;
  std::map<Id, Listener> listeners_;
  std::map<Id, Connection> connections_;
};

}  // namespace understudy::nccl_rank
