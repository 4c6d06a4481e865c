// The emulated ranks of a communicator on the network in memory: NcclCommunicator and its
// NetIbPeers, with a host that makes up queue pairs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/communicator.h"
#include "ctrl/peers/nccl/transport/net_ib_peer.h"
#include "tests/rigs/nccl_rank/network.h"
#include "tests/rigs/nccl_rank/world.h"

namespace understudy::nccl_rank {

class EmulatedSide final : public NetworkUser, public NcclHost, public NetIbObserver {
 public:
  EmulatedSide(const World& world, MemoryNetwork& network) : world_(world), network_(network) {}
  ~EmulatedSide() override;

  /// The root is emulated: a listener of that rank's node, before start().
  SocketAddress open_root(uint32_t rank);
  /// What the configuration says of children.
  void set_groups(std::vector<RankPartition> groups) { settings_.groups = std::move(groups); }
  void start(const SocketAddress& root);
  const SocketAddress& root() const { return settings_.id.root; }
  NcclCommunicator& communicator() { return *communicator_; }
  /// Connections that are ready, with the queue pairs that were asked for: their ends.
  struct Connected {
    std::vector<uint32_t> own, remote;
    EndpointRequest request;
  };
  const std::map<NcclConnector, Connected>& connected() const { return connected_; }
  const std::vector<std::string>& said() const { return said_; }
  /// Why a connection was not made, empty if all were.
  const std::string& ib_failure() const { return ib_failure_; }
  Time now() const { return now_; }

  void on_accepted(Id listener, Id stream, const SocketAddress& from) override;
  void on_connected(Id stream) override;
  void on_bytes(Id stream, std::span<const uint8_t> bytes) override;
  void on_closed(Id stream, const std::string& why) override;

  Result<SocketAddress> listen(uint32_t rank, ListenerId listener) override;
  ListenerId new_listener() override { return network_.new_id(); }
  void stop_listening(ListenerId listener) override { network_.stop_listening(listener); }
  void dial(uint32_t rank, const SocketAddress& to, StreamId stream) override;
  StreamId new_stream() override { return network_.new_id(); }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    network_.send(stream, bytes);
  }
  void close(StreamId stream) override { network_.close(stream); }
  Result<SocketAddress> expect(const NcclConnector& connector) override;
  void connect(const NcclConnector& connector, const SocketAddress& listener,
               uint64_t magic) override;
  void disconnect(const NcclConnector& connector) override { gone_.push_back(connector); }
  void say(const std::string& line) override { said_.push_back(line); }

  void on_connector_ready(Time now, const NcclConnector& connector) override;
  void on_connector_failed(Time now, const NcclConnector& connector,
                           const std::string& why) override;
  void on_connector_closed(Time, const NcclConnector&) override {}

 private:
  struct Ib {
    NcclConnector connector;
    Id stream = 0, listener = 0;
    std::unique_ptr<NetIbPeer> peer;
  };
  IpAddress address(uint32_t rank) const {
    return World::address(world_.node(static_cast<int>(rank)));
  }
  std::unique_ptr<NetIbPeer> make_peer(const NcclConnector& connector);
  /// What the peer says and asks for, until it waits.
  void serve(Ib& ib);
  Ib* ib_of(Id stream);
  void after();

  const World& world_;
  MemoryNetwork& network_;
  std::unique_ptr<NcclCommunicator> communicator_;
  NcclCommunicatorSettings settings_;
  NetIbSeen seen_;
  std::map<Id, NcclConnector> ib_listeners_;
  std::vector<std::unique_ptr<Ib>> ibs_;
  std::map<NcclConnector, Connected> connected_, making_;
  std::vector<NcclConnector> gone_, ready_;
  std::vector<std::string> said_;
  std::string ib_failure_;
  uint32_t last_qpn_ = 0x5000;
  Time now_;
};

}  // namespace understudy::nccl_rank
