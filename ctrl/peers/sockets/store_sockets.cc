#include "ctrl/peers/sockets/store_sockets.h"

namespace understudy {
namespace {

/// The program on the real node is started by hand: its store may come late.
constexpr Duration kCallAgain = Duration::ms(250);

}  // namespace

Result<void> StoreSockets::start(RendezvousSettings settings, RendezvousCallbacks callbacks) {
  master_ = settings.master;
  const bool listens = settings.ranks.empty() || !settings.ranks[0].real;
  rendezvous_ = Rendezvous::make(std::move(settings), *this, std::move(callbacks));
  if (listens) {
    const IpAddress any = master_.address.is_v4() ? IpAddress::v4(0) : IpAddress();
    const auto port = network_.listen(
        any, master_.port, [this](const AcceptedConnection& accepted) -> std::unique_ptr<Peer> {
          // The socket takes calls to all emulated addresses.
          if (accepted.local != master_.address) return nullptr;
          const StreamId id = new_stream();
          auto peer = streams_.accept(id, accepted.id);
          connections_[accepted.id] = id;
          rendezvous_->on_accepted(id, {accepted.client, accepted.client_port});
          return peer;
        });
    if (!port) return fail("PyTorch's store at " + master_.text() + ": " + port.error().text);
  }
  rendezvous_->start(network_.now());
  return {};
}

void StoreSockets::call() {
  const Time now = network_.now();
  if (wanted_ == 0 || now < call_at_) return;
  call_at_ = now + kCallAgain;
  const StreamId id = std::exchange(wanted_, 0);
  const auto connection = streams_.call(from_, master_, id);
  if (!connection) {
    wanted_ = id;
    return;
  }
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

void StoreSockets::close(StreamId stream) {
  if (wanted_ == stream) wanted_ = 0;
  streams_.close(stream);
}

void StoreSockets::on_stream_connected(Time now, StreamId stream, ConnectionId) {
  rendezvous_->on_connected(now, stream);
}

void StoreSockets::on_stream_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  rendezvous_->on_bytes(now, stream, bytes);
}

void StoreSockets::on_stream_closed(Time now, StreamId stream, const std::string&) {
  rendezvous_->on_closed(now, stream);
}

void StoreSockets::poll() {
  rendezvous_->poll(network_.now());
  call();
  streams_.pump();
}

}  // namespace understudy
