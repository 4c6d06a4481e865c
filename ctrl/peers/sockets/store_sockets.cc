#include "ctrl/peers/sockets/store_sockets.h"

namespace understudy {
namespace {

/// The program on the real node is started by hand: its store may come late.
constexpr Duration kCallAgain = Duration::ms(250);

}  // namespace

Result<uint16_t> StoreSockets::listen(const SocketAddress& at) {
  const IpAddress any = at.address.is_v4() ? IpAddress::v4(0) : IpAddress();
  auto port = network_.listen(
      any, at.port,
      [this, local = at.address](const AcceptedConnection& accepted) -> std::unique_ptr<Peer> {
        // The socket takes calls to all emulated addresses.
        if (accepted.local != local || machine_ == nullptr) return nullptr;
        const StreamId id = new_stream();
        auto peer = streams_.accept(id, accepted.id);
        connections_[accepted.id] = id;
        machine_->on_accepted(id, {accepted.client, accepted.client_port});
        return peer;
      });
  if (!port) return fail("PyTorch's store at " + at.text() + ": " + port.error().text);
  return port;
}

void StoreSockets::start(std::unique_ptr<Rendezvous> machine, const SocketAddress& master) {
  for (const auto& [connection, stream] : connections_) streams_.close(stream);
  first_ = new_stream();
  wanted_ = 0;
  master_ = master;
  machine_ = std::move(machine);
  machine_->start(network_.now());
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
  if (!ended.connected && id > first_) wanted_ = id;
  return true;
}

void StoreSockets::close(StreamId stream) {
  if (wanted_ == stream) wanted_ = 0;
  streams_.close(stream);
}

void StoreSockets::on_stream_connected(Time now, StreamId stream, ConnectionId) {
  if (stream > first_) machine_->on_connected(now, stream);
}

void StoreSockets::on_stream_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  if (stream > first_) machine_->on_bytes(now, stream, bytes);
}

void StoreSockets::on_stream_closed(Time now, StreamId stream, const std::string&) {
  if (stream > first_) machine_->on_closed(now, stream);
}

void StoreSockets::poll() {
  if (machine_ == nullptr) return;
  machine_->poll(network_.now());
  call();
  streams_.pump();
}

}  // namespace understudy
