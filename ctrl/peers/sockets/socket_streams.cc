#include "ctrl/peers/sockets/socket_streams.h"

#include <utility>

namespace understudy {

class SocketStreams::Stream final : public Peer {
 public:
  Stream(SocketStreams& all, StreamId id) : all_(&all), id_(id) { all.streams_[id] = this; }
  ~Stream() override {
    if (all_ != nullptr) all_->streams_.erase(id_);
  }
  /// It ends before its connection does.
  void orphan() {
    all_ = nullptr;
    finished_ = true;
  }

  void on_bytes(Time now, std::span<const uint8_t> bytes) override {
    if (!finished_) all_->owner_.on_stream_bytes(now, id_, bytes);
  }
  void on_connected(Time now) override {
    if (!finished_) all_->owner_.on_stream_connected(now, id_, connection);
  }
  void on_closed(Time) override {
    if (!finished_) all_->fail(id_, "");
    finished_ = true;
  }
  void on_endpoint(Time, const EndpointReady&) override {}

  void append(std::span<const uint8_t> bytes) {
    if (!finished_) output_.insert(output_.end(), bytes.begin(), bytes.end());
  }
  void close() { finished_ = true; }

  ConnectionId connection = 0;

 private:
  SocketStreams* all_;
  const StreamId id_;
};

SocketStreams::~SocketStreams() {
  for (const auto& [id, stream] : streams_) stream->orphan();
}

std::unique_ptr<Peer> SocketStreams::accept(StreamId stream, ConnectionId connection) {
  auto made = std::make_unique<Stream>(*this, stream);
  made->connection = connection;
  return made;
}

Result<ConnectionId> SocketStreams::call(const IpAddress& from, const SocketAddress& to,
                                         StreamId stream) {
  auto made = std::make_unique<Stream>(*this, stream);
  Stream& peer = *made;
  auto connection = network_.call(from, to, std::move(made));
  if (connection) peer.connection = *connection;
  return connection;
}

void SocketStreams::send(StreamId stream, std::span<const uint8_t> bytes) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  found->second->append(bytes);
  changed_.push_back(stream);
}

void SocketStreams::close(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  found->second->close();
  changed_.push_back(stream);
}

void SocketStreams::pump() {
  if (pumping_) return;
  pumping_ = true;
  while (!changed_.empty() || !ended_.empty()) {
    for (const StreamId stream : std::exchange(changed_, {})) {
      const auto found = streams_.find(stream);
      if (found != streams_.end()) network_.flush(found->second->connection);
    }
    for (const Ended& ended : std::exchange(ended_, {})) {
      owner_.on_stream_closed(network_.now(), ended.stream, ended.why);
    }
  }
  pumping_ = false;
}

}  // namespace understudy
