// The sockets of emulated ranks: joins machines of many connections (an NCCL communicator,
// PyTorch's store) to a PeerNetwork. Many ranks share a listening socket, which takes connections
// to all emulated addresses: who is meant is told by the address that was dialled. A rank's n-th
// listener is at its own address and the n-th shared port.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/host.h"
#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/peer_network.h"
#include "ctrl/peers/sockets/socket_streams.h"

namespace understudy {

class NcclSockets final : public NcclHost, private SocketStreams::Owner {
 public:
  struct Callbacks {
    /// net_ib's side of a connection, as who takes it and as who makes it.
    std::function<std::unique_ptr<Peer>(const NcclConnector&)> receiver;
    std::function<std::unique_ptr<Peer>(const NcclConnector&, uint64_t magic)> sender;
    /// Its queue pairs are to go.
    std::function<void(const NcclConnector&)> disconnect;
    std::function<void(const std::string&)> say;
    // Of one-sided operations, as NcclHost has them.
    std::function<void(const NcclConnector&, std::span<const uint8_t>)> relay;
    std::function<Result<MemoryKey>(const OneSidedMemory&)> expose;
    std::function<void(const OneSidedMemory&, const MemoryKey&)> exposed;
  };

  /// `addresses`: of each rank, real ones too. All ranks with one address are told apart by port.
  NcclSockets(PeerNetwork& network, std::vector<IpAddress> addresses, Callbacks callbacks)
      : network_(network),
        addresses_(std::move(addresses)),
        callbacks_(std::move(callbacks)),
        streams_(network, *this) {}

  /// Whom it all belongs to. Who comes before that is hung up on: nobody can know of the root yet.
  void attach(NcclCommunicator& communicator) { communicator_ = &communicator; }
  /// Of the root, which several communicators have one after another: who comes while nobody is
  /// attached, or when all real ranks have checked in, waits for the next one.
  void keep(ListenerId root) { kept_ = root; }
  /// Those that wait there.
  size_t early() const { return early_.size(); }
  /// Tells them to the communicator that is attached, which has started.
  void take_early();
  /// Ends all connections but those that wait; nobody is attached then. Not from within calls of a
  /// machine.
  void forget();
  /// A listener at an address that others know, of `rank`: the root's.
  Result<void> listen_at(uint32_t rank, uint16_t port, ListenerId listener);
  /// Calls there are repeated for ever: whoever listens there is started by hand.
  void wait_for(const SocketAddress& at) { patient_ = at; }

  /// Control's turn.
  void poll();
  bool owns(ConnectionId connection) const { return connections_.contains(connection); }
  /// A connection of the network has ended; false if it is none of ours.
  bool on_ended(const EndedConnection& ended);
  /// A message came on a connection for one-sided operations.
  void on_relayed(const NcclConnector& connector, std::span<const uint8_t> bytes) {
    if (communicator_ != nullptr) communicator_->on_relayed(network_.now(), connector, bytes);
  }
  /// A connector stands, or will not.
  void on_connector(const NcclConnector& connector, const std::string& failure);

  Result<SocketAddress> listen(uint32_t rank, ListenerId listener) override;
  void stop_listening(ListenerId listener) override;
  void dial(uint32_t rank, const SocketAddress& to, StreamId stream) override;
  StreamId new_stream() override { return streams_.new_stream(); }
  ListenerId new_listener() override { return next_listener_++; }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    streams_.send(stream, bytes);
  }
  void close(StreamId stream) override;
  Result<SocketAddress> expect(const NcclConnector& connector) override;
  Result<void> expect_behind(const NcclConnector& connector, const NcclConnector& before) override;
  void connect(const NcclConnector& connector, const SocketAddress& listener,
               uint64_t magic) override;
  void disconnect(const NcclConnector& connector) override;
  void relay(const NcclConnector& connector, std::span<const uint8_t> bytes) override {
    if (callbacks_.relay) callbacks_.relay(connector, bytes);
  }
  Result<MemoryKey> expose(const OneSidedMemory& memory) override {
    return callbacks_.expose ? callbacks_.expose(memory) : NcclHost::expose(memory);
  }
  void exposed(const OneSidedMemory& memory, const MemoryKey& real) override {
    if (callbacks_.exposed) callbacks_.exposed(memory, real);
  }
  void say(const std::string& line) override { callbacks_.say(line); }

 private:
  /// What is listened for at one address and port.
  struct Expected {
    ListenerId listener = 0;
    std::deque<NcclConnector> connectors;  ///< the first one is taken
  };
  /// A connection that is to be made, by a rank or a connector.
  struct Call {
    uint32_t rank = 0;
    StreamId stream = 0;  ///< 0: of the connector
    NcclConnector connector;
    uint64_t magic = 0;
  };
  /// Waits at the root for the next communicator.
  struct Early {
    ConnectionId connection = 0;
    SocketAddress from;
    std::vector<uint8_t> bytes;
    bool closed = false;  ///< by the real rank, which has said all
  };
  /// Where ranks dial. Nobody there: one call at a time tries it again.
  struct Target {
    std::deque<Call> waiting;
    uint32_t under_way = 0;
    uint32_t refused = 0;  ///< calls in a row
    Time retry;
  };
  void on_stream_connected(Time now, StreamId stream, ConnectionId connection) override;
  void on_stream_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) override;
  void on_stream_closed(Time now, StreamId stream, const std::string& why) override;
  Result<SocketAddress> claim(uint32_t rank, Expected expected);
  Result<uint16_t> open_port(const IpAddress& like, uint16_t port);
  void release(const NcclConnector& connector);
  std::unique_ptr<Peer> accept(const AcceptedConnection& accepted);
  bool is_early(ListenerId listener) const;
  void call(const SocketAddress& to, Target& target);
  void make_calls();
  void drop(const Call& call, const std::string& why);

  PeerNetwork& network_;
  const std::vector<IpAddress> addresses_;
  const Callbacks callbacks_;
  SocketStreams streams_;
  NcclCommunicator* communicator_ = nullptr;
  ListenerId next_listener_ = 1;
  std::map<bool, std::vector<uint16_t>> ports_;  ///< shared ones, by v4
  std::map<SocketAddress, Expected> expected_;
  std::map<ListenerId, SocketAddress> listeners_;
  std::map<NcclConnector, SocketAddress> awaited_;
  std::map<SocketAddress, Target> targets_;
  std::unordered_set<ConnectionId> connections_;                            ///< all of ours
  std::unordered_map<ConnectionId, std::pair<SocketAddress, Call>> calls_;  ///< by us, for now
  std::optional<SocketAddress> patient_;
  std::optional<ListenerId> kept_;
  std::map<StreamId, Early> early_;
};

}  // namespace understudy
