// Joins one machine of many connections (an NCCL communicator, PyTorch's store) to a PeerNetwork:
// its connections by the numbers that it has given them. What it says and closes goes out, and what
// has ended is told, in pump(): never from within its own calls.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ctrl/peers/peer_network.h"
#include "ctrl/peers/stream_id.h"

namespace understudy {

class SocketStreams {
 public:
  /// Whom they belong to.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void on_stream_connected(Time now, StreamId stream, ConnectionId connection) = 0;
    virtual void on_stream_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) = 0;
    /// It has ended, and not by close().
    virtual void on_stream_closed(Time now, StreamId stream, const std::string& why) = 0;
  };

  SocketStreams(PeerNetwork& network, Owner& owner) : network_(network), owner_(owner) {}
  ~SocketStreams();
  SocketStreams(const SocketStreams&) = delete;

  StreamId new_stream() { return next_++; }
  /// The network's machine of a connection that was taken.
  std::unique_ptr<Peer> accept(StreamId stream, ConnectionId connection);
  Result<ConnectionId> call(const IpAddress& from, const SocketAddress& to, StreamId stream);
  void send(StreamId stream, std::span<const uint8_t> bytes);
  /// Once what was sent has gone. Nothing is told of it any more.
  void close(StreamId stream);
  /// Tells its owner that a stream has ended that never stood.
  void fail(StreamId stream, const std::string& why) { ended_.push_back({stream, why}); }
  void pump();

 private:
  class Stream;
  struct Ended {
    StreamId stream = 0;
    std::string why;
  };

  PeerNetwork& network_;
  Owner& owner_;
  StreamId next_ = 1;
  std::unordered_map<StreamId, Stream*> streams_;
  std::vector<StreamId> changed_;
  std::deque<Ended> ended_;
  bool pumping_ = false;
};

}  // namespace understudy
