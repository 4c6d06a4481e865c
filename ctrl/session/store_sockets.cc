#include "ctrl/session/store_sockets.h"

namespace understudy {
namespace {

/// The program on the real node is started by hand: its store may come late.
constexpr Duration kCallAgain = Duration::ms(250);

}  // namespace

class StoreSockets::Stream final : public Peer {
 public:
  Stream(StoreSockets& all, StreamId id) : all_(&all), id_(id) { all.streams_[id] = this; }
  ~Stream() override {
    if (all_ != nullptr) all_->streams_.erase(id_);
  }
  /// It ends before its connection does.
  void orphan() {
    all_ = nullptr;
    finished_ = true;
  }

  void on_bytes(Time now, std::span<const uint8_t> bytes) override {
    if (!finished_) all_->rendezvous_->on_bytes(now, id_, bytes);
  }
  void on_connected(Time now) override {
    if (!finished_) all_->rendezvous_->on_connected(now, id_);
  }
  void on_closed(Time) override {
    if (!finished_) all_->ended_.push_back(id_);
    finished_ = true;
  }
  void on_endpoint(Time, const EndpointReady&) override {}

  void append(std::span<const uint8_t> bytes) {
    output_.insert(output_.end(), bytes.begin(), bytes.end());
  }
  void close() { finished_ = true; }

  ConnectionId connection = 0;

 private:
  StoreSockets* all_;
  const StreamId id_;
};

StoreSockets::~StoreSockets() {
  for (const auto& [id, stream] : streams_) stream->orphan();
}

Result<void> StoreSockets::start(RendezvousSettings settings, RendezvousCallbacks callbacks) {
  master_ = settings.master;
  const bool listens = settings.ranks.empty() || !settings.ranks[0].real;
  rendezvous_ = Rendezvous::make(std::move(settings), *this, std::move(callbacks));
  if (listens) {
    const auto fd = callbacks_.listen(master_);
    if (!fd) return fail("PyTorch's store at " + master_.text() + ": " + fd.error().text);
    auto added = sockets_.add_listener(
        *fd, kNoNode, [this](const AcceptedConnection& accepted) -> std::unique_ptr<Peer> {
          // The socket takes calls to all emulated addresses.
          if (accepted.local != master_.address) return nullptr;
          const StreamId id = new_stream();
          auto stream = std::make_unique<Stream>(*this, id);
          stream->connection = accepted.id;
          connections_[accepted.id] = id;
          rendezvous_->on_accepted(id, {accepted.client, accepted.client_port});
          return stream;
        });
    if (!added) return added;
  }
  rendezvous_->start(callbacks_.now());
  return {};
}

void StoreSockets::call() {
  const Time now = callbacks_.now();
  if (wanted_ == 0 || now < call_at_) return;
  call_at_ = now + kCallAgain;
  const auto fd = callbacks_.connect(master_);
  if (!fd) return;
  const StreamId id = std::exchange(wanted_, 0);
  auto stream = std::make_unique<Stream>(*this, id);
  Stream& made = *stream;
  const auto connection =
      sockets_.add_call(*fd, kNoNode, master_.address, master_.port, std::move(stream));
  if (!connection) {
    wanted_ = id;
    return;
  }
  made.connection = *connection;
  connections_[*connection] = id;
}

bool StoreSockets::on_ended(const EndedConnection& ended) {
  const auto found = connections_.find(ended.id);
  if (found == connections_.end()) return false;
  const StreamId id = found->second;
  connections_.erase(found);
  if (!ended.connected) wanted_ = id;
  return true;
}

void StoreSockets::send(StreamId stream, std::span<const uint8_t> bytes) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  found->second->append(bytes);
  changed_.push_back(stream);
}

void StoreSockets::close(StreamId stream) {
  if (wanted_ == stream) wanted_ = 0;
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  found->second->close();
  changed_.push_back(stream);
}

void StoreSockets::flush() {
  while (!changed_.empty() || !ended_.empty()) {
    for (const StreamId id : std::exchange(changed_, {})) {
      const auto found = streams_.find(id);
      if (found != streams_.end()) sockets_.flush(found->second->connection);
    }
    for (const StreamId id : std::exchange(ended_, {})) {
      rendezvous_->on_closed(callbacks_.now(), id);
    }
  }
}

void StoreSockets::poll() {
  rendezvous_->poll(callbacks_.now());
  call();
  flush();
}

}  // namespace understudy
