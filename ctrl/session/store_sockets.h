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

namespace understudy {

class StoreSockets final : public StoreHost {
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
      : sockets_(sockets), callbacks_(std::move(callbacks)) {}
  ~StoreSockets() override;

  /// Before anything happens; once. Listens if rank 0 is emulated.
  Result<void> start(RendezvousSettings settings, RendezvousCallbacks callbacks);
  const Rendezvous& rendezvous() const { return *rendezvous_; }

  /// Control's turn.
  void poll();
  /// A connection of the adapter has ended; false if it is none of ours.
  bool on_ended(const EndedConnection& ended);

  StreamId new_stream() override { return next_stream_++; }
  void dial(StreamId stream) override { wanted_ = stream; }
  void send(StreamId stream, std::span<const uint8_t> bytes) override;
  void close(StreamId stream) override;
  void say(const std::string& line) override { callbacks_.say(line); }

 private:
  class Stream;

  void call();
  void flush();

  SocketAdapter& sockets_;
  const Callbacks callbacks_;
  SocketAddress master_;
  std::unique_ptr<Rendezvous> rendezvous_;
  StreamId next_stream_ = 1;
  StreamId wanted_ = 0;  ///< to be connected to the store
  Time call_at_;
  std::unordered_map<StreamId, Stream*> streams_;
  std::unordered_map<ConnectionId, StreamId> connections_;
  std::vector<StreamId> changed_;
  std::vector<StreamId> ended_;
};

}  // namespace understudy
