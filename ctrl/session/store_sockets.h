// The sockets of a rendezvous at PyTorch's store: joins it to a SocketAdapter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctrl/peers/socket_adapter.h"
#include "ctrl/peers/tcp_store/rendezvous.h"
#include "ctrl/session/socket_streams.h"

namespace understudy {

class StoreSockets final : public StoreHost, private SocketStreams::Owner {
 public:
  struct Callbacks {
    std::function<Time()> now;
    /// A listening non-blocking socket.
    std::function<Result<int>(const SocketAddress& at)> listen;
    /// A non-blocking socket of an emulated rank's address that connects.
    std::function<Result<int>(const SocketAddress& to)> connect;
    std::function<void(const std::string&)> say;
  };

  StoreSockets(SocketAdapter& sockets, Callbacks callbacks)
      : sockets_(sockets), callbacks_(std::move(callbacks)), streams_(sockets, *this) {}

  /// Before anything happens; once. Listens if rank 0 is emulated.
  Result<void> start(RendezvousSettings settings, RendezvousCallbacks callbacks);
  const Rendezvous& rendezvous() const { return *rendezvous_; }

  /// Control's turn.
  void poll();
  /// A connection of the adapter has ended; false if it is none of ours.
  bool on_ended(const EndedConnection& ended);

  StreamId new_stream() override { return streams_.new_stream(); }
  void dial(StreamId stream) override { wanted_ = stream; }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    streams_.send(stream, bytes);
  }
  void close(StreamId stream) override;
  void say(const std::string& line) override { callbacks_.say(line); }

 private:
  void on_stream_connected(Time now, StreamId stream, ConnectionId connection) override;
  void on_stream_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) override;
  void on_stream_closed(Time now, StreamId stream, const std::string& why) override;
  void call();

  SocketAdapter& sockets_;
  const Callbacks callbacks_;
  SocketStreams streams_;
  SocketAddress master_;
  std::unique_ptr<Rendezvous> rendezvous_;
  StreamId wanted_ = 0;  ///< to be connected to the store
  Time call_at_;
  std::unordered_map<ConnectionId, StreamId> connections_;
};

}  // namespace understudy
