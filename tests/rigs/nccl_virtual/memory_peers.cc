#include "tests/rigs/nccl_virtual/memory_peers.h"

#include <utility>

namespace understudy::nccl_rank {

uint16_t MemoryPeers::add(const SocketAddress& at, NodeId node,
                          std::shared_ptr<Acceptor> acceptor) {
  const Id id = network_.new_id();
  const SocketAddress got = network_.listen(*this, at.address, id, at.port);
  listeners_[id] = {got, node, std::move(acceptor)};
  return got.port;
}

Result<uint16_t> MemoryPeers::listen(const IpAddress& any, uint16_t port, Acceptor acceptor) {
  const auto shared = std::make_shared<Acceptor>(std::move(acceptor));
  for (const IpAddress& address : addresses_) {
    if (address.is_v4() == any.is_v4()) port = add({address, port}, kNoNode, shared);
  }
  return port;
}

Result<void> MemoryPeers::listen_at(const SocketAddress& at, NodeId node, Acceptor acceptor) {
  add(at, node, std::make_shared<Acceptor>(std::move(acceptor)));
  return {};
}

Result<ConnectionId> MemoryPeers::call_for(NodeId node, const IpAddress& from,
                                           const SocketAddress& to, std::unique_ptr<Peer> peer) {
  const Id stream = network_.new_id();
  add_dialled(stream, node, to, std::move(peer));
  if (network_.listens(to)) {
    network_.dial(*this, from, to, stream);
  } else {
    on_not_connected(stream, "Connection refused", true);
  }
  return stream;
}

void MemoryPeers::on_accepted(Id listener, Id stream, const SocketAddress& from) {
  const Listener& at = listeners_.at(listener);
  const AcceptedConnection accepted{stream, at.at.address, from.address, at.at.port, from.port};
  auto peer = (*at.acceptor)(accepted);
  if (peer == nullptr) return network_.close(stream);
  add_accepted(accepted, at.node, std::move(peer));
}

}  // namespace understudy::nccl_rank
