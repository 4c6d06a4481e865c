// The sockets of a machine at PyTorch's store (a rendezvous of ranks, torchrun's agents): joins it to
// a PeerNetwork. Another machine may follow, which takes the place of the first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctrl/peers/peer_network.h"
#include "ctrl/peers/sockets/socket_streams.h"
#include "ctrl/peers/torch_store/rendezvous.h"

namespace understudy {

class StoreSockets final : public StoreHost, private SocketStreams::Owner {
 public:
  /// `from`: of an emulated rank, who calls.
  StoreSockets(PeerNetwork& network, const IpAddress& from,
               std::function<void(const std::string&)> say)
      : network_(network), from_(from), say_(std::move(say)), streams_(network, *this) {}

  /// For a store of ours, before anything happens. Port 0: any. Returns the port.
  Result<uint16_t> listen(const SocketAddress& at);
  /// `master`: where it calls, if the store is not ours. Connections of a machine before it end.
  void start(std::unique_ptr<Rendezvous> machine, const SocketAddress& master);
  bool started() const { return machine_ != nullptr; }
  Rendezvous& machine() { return *machine_; }
  const Rendezvous& machine() const { return *machine_; }

  /// Control's turn.
  void poll();
  /// A connection of the network has ended; false if it is none of ours.
  bool on_ended(const EndedConnection& ended);

  StreamId new_stream() override { return streams_.new_stream(); }
  void dial(StreamId stream) override { wanted_ = stream; }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    streams_.send(stream, bytes);
  }
  void close(StreamId stream) override;
  void say(const std::string& line) override { say_(line); }

 private:
  void on_stream_connected(Time now, StreamId stream, ConnectionId connection) override;
  void on_stream_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) override;
  void on_stream_closed(Time now, StreamId stream, const std::string& why) override;
  void call();

  PeerNetwork& network_;
  const IpAddress from_;
  const std::function<void(const std::string&)> say_;
  SocketStreams streams_;
  SocketAddress master_;
  std::unique_ptr<Rendezvous> machine_;
  StreamId wanted_ = 0;  ///< to be connected to the store
  StreamId first_ = 0;   ///< of the present machine: those before it are none of its
  Time call_at_;
  std::unordered_map<ConnectionId, StreamId> connections_;
};

}  // namespace understudy
