// The emulated nodes' TCP in memory, as SocketAdapter is it on the host: jobs of NCCL's meet
// reference ranks by it in virtual time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ctrl/peers/peer_carrier.h"
#include "tests/rigs/nccl_rank/network.h"

namespace understudy::nccl_rank {

class MemoryPeers final : public PeerCarrier, public NetworkUser {
 public:
  /// `addresses`: of the emulated nodes.
  MemoryPeers(MemoryNetwork& network, std::vector<IpAddress> addresses, std::function<Time()> now,
              Callbacks callbacks)
      : PeerCarrier(std::move(callbacks)),
        network_(network),
        addresses_(std::move(addresses)),
        now_(std::move(now)) {}

  /// Tells of connections that have ended.
  void poll() { report_ended(); }

  Time now() const override { return now_(); }
  Result<uint16_t> listen(const IpAddress& any, uint16_t port, Acceptor acceptor) override;
  using PeerHost::listen_at;
  Result<void> listen_at(const SocketAddress& at, NodeId node, Acceptor acceptor) override;
  /// Refused where nobody listens.
  Result<ConnectionId> call_for(NodeId node, const IpAddress& from, const SocketAddress& to,
                                std::unique_ptr<Peer> peer) override;

  void on_accepted(Id listener, Id stream, const SocketAddress& from) override;
  void on_connected(Id stream) override { PeerCarrier::on_connected(stream); }
  void on_bytes(Id stream, std::span<const uint8_t> bytes) override {
    PeerCarrier::on_bytes(stream, bytes);
  }
  void on_closed(Id stream, const std::string&) override { PeerCarrier::on_closed(stream); }

 private:
  struct Listener {
    SocketAddress at;
    NodeId node = kNoNode;
    std::shared_ptr<Acceptor> acceptor;
  };
  void write(ConnectionId id, std::span<const uint8_t> bytes) override { network_.send(id, bytes); }
  bool push(ConnectionId) override { return true; }
  void close(ConnectionId id) override { network_.close(id); }
  uint16_t add(const SocketAddress& at, NodeId node, std::shared_ptr<Acceptor> acceptor);

  MemoryNetwork& network_;
  const std::vector<IpAddress> addresses_;
  const std::function<Time()> now_;
  std::map<Id, Listener> listeners_;
};

}  // namespace understudy::nccl_rank
