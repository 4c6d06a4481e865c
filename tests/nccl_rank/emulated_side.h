// The emulated ranks of a communicator on the network in memory: NcclCommunicator with a host.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/communicator.h"
#include "tests/nccl_rank/net_ib.h"
#include "tests/nccl_rank/network.h"
#include "tests/nccl_rank/world.h"

namespace understudy::nccl_rank {

class EmulatedSide final : public NetworkUser, public NcclHost {
 public:
  EmulatedSide(const World& world, MemoryNetwork& network) : world_(world), network_(network) {}
  ~EmulatedSide() override;

  /// The root is emulated: a listener of that rank's node, before start().
  SocketAddress open_root(uint32_t rank);
  void start(const SocketAddress& root);
  NcclCommunicator& communicator() { return *communicator_; }
  /// Connections that are ready, with what the real rank said of its side.
  const std::map<NcclConnector, IbSide>& connected() const { return connected_; }
  const std::vector<std::string>& said() const { return said_; }
  /// What our side of net_ib's exchange refused.
  std::string ib_failure() const;
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
  void disconnect(const NcclConnector& connector) override { connected_.erase(connector); }
  void say(const std::string& line) override { said_.push_back(line); }

 private:
  Process& process(uint32_t rank);
  IpAddress address(uint32_t rank) const {
    return World::address(world_.node(static_cast<int>(rank)));
  }
  IbSide own_side(const NcclConnector& connector);

  const World& world_;
  MemoryNetwork& network_;
  std::unique_ptr<NcclCommunicator> communicator_;
  NcclCommunicatorSettings settings_;
  /// One for each emulated node: our side of net_ib's exchange.
  std::map<int, std::unique_ptr<Process>> processes_;
  std::map<NcclConnector, IbSide> connected_;
  std::vector<std::string> said_;
  uint32_t last_qpn_ = 0x5000;
  Time now_;
};

}  // namespace understudy::nccl_rank
