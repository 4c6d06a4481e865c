#include "tests/rigs/nccl_rank/emulated_side.h"

#include <utility>

namespace understudy::nccl_rank {

// It gives its connectors back to us.
EmulatedSide::~EmulatedSide() { communicator_.reset(); }

SocketAddress EmulatedSide::open_root(uint32_t rank) {
  settings_.emulated_root = true;
  settings_.root_rank = rank;
  settings_.root_listener = network_.new_id();
  return network_.listen(*this, address(rank), settings_.root_listener);
}

void EmulatedSide::start(const SocketAddress& root) {
  settings_.version.minor = static_cast<uint32_t>(world_.release.minor);
  settings_.id = {world_.magic, root};
  for (const World::Rank& rank : world_.ranks) {
    settings_.ranks.push_back({rank.real, static_cast<uint32_t>(rank.node)});
  }
  communicator_ = std::make_unique<NcclCommunicator>(settings_, *this);
  communicator_->start(now_);
}

void EmulatedSide::on_accepted(Id listener, Id stream, const SocketAddress& from) {
  const auto found = ib_listeners_.find(listener);
  if (found == ib_listeners_.end()) {
    communicator_->on_accepted(now_, listener, stream, from);
  } else {
    auto ib = std::make_unique<Ib>();
    ib->connector = found->second;
    ib->stream = stream;
    ib->listener = listener;
    ib->peer = make_peer(found->second);
    ibs_.push_back(std::move(ib));
  }
  after();
}

void EmulatedSide::on_connected(Id stream) {
  if (Ib* ib = ib_of(stream)) {
    ib->peer->on_connected(now_);
    serve(*ib);
  } else {
    communicator_->on_connected(now_, stream);
  }
  after();
}

void EmulatedSide::on_bytes(Id stream, std::span<const uint8_t> bytes) {
  if (Ib* ib = ib_of(stream)) {
    ib->peer->on_bytes(now_, bytes);
    serve(*ib);
  } else {
    communicator_->on_bytes(now_, stream, bytes);
  }
  after();
}

void EmulatedSide::on_closed(Id stream, const std::string& why) {
  if (Ib* ib = ib_of(stream)) {
    ib->peer->on_closed(now_);
    serve(*ib);
  } else {
    communicator_->on_closed(now_, stream, why);
  }
  after();
}

EmulatedSide::Ib* EmulatedSide::ib_of(Id stream) {
  for (const auto& ib : ibs_) {
    if (ib->stream == stream) return ib.get();
  }
  return nullptr;
}

std::unique_ptr<NetIbPeer> EmulatedSide::make_peer(const NcclConnector& connector) {
  NetIbSettings settings;
  settings.version = settings_.version;
  settings.queue_pairs = static_cast<uint32_t>(world_.queue_pairs);
  const auto gids = [&](uint32_t rank, int devices) {
    std::vector<IpAddress> all;
    for (int d = 0; d < devices; ++d) {
      all.push_back(World::address(world_.node(static_cast<int>(rank)), d));
    }
    return all;
  };
  settings.local = gids(connector.emulated, world_.emulated_devices);
  settings.real_addresses = gids(connector.real, world_.real_devices);
  return std::make_unique<NetIbPeer>(connector, settings, seen_, *this);
}

void EmulatedSide::serve(Ib& ib) {
  for (bool again = true; again;) {
    again = false;
    const auto output = ib.peer->take_output();
    network_.send(ib.stream, output);
    for (const EndpointRequest& request : ib.peer->take_requests()) {
      again = true;
      Connected& made = making_[ib.connector];
      if (made.own.empty()) {
        for (uint32_t q = 0; q < request.nccl->queue_pairs; ++q) made.own.push_back(++last_qpn_);
      }
      made.request = request;
      made.remote = request.nccl->remote_qpns;
      EndpointReady ready;
      ready.qpn = made.own[0];
      ready.qpns = made.own;
      ready.address = 0x770000000000 + made.own[0] * 0x100000ULL;
      ready.rkey = 0x2000 + made.own[0];
      ib.peer->on_endpoint(now_, ready);
    }
  }
  if (ib.peer->claimed() && ib.listener != 0) {
    network_.stop_listening(ib.listener);
    ib_listeners_.erase(ib.listener);
    ib.listener = 0;
  }
  if (!ib.peer->failure().empty() && ib_failure_.empty()) ib_failure_ = ib.peer->failure();
}

void EmulatedSide::on_connector_ready(Time, const NcclConnector& connector) {
  connected_[connector] = making_[connector];
  ready_.push_back(connector);
}

void EmulatedSide::on_connector_failed(Time, const NcclConnector&, const std::string& why) {
  if (ib_failure_.empty()) ib_failure_ = why;
}

/// What peers and communicator told each other, outside their calls.
void EmulatedSide::after() {
  now_ = now_ + Duration::us(1);
  for (const NcclConnector& connector : std::exchange(ready_, {})) {
    communicator_->on_connector_ready(now_, connector);
  }
  for (const NcclConnector& connector : std::exchange(gone_, {})) {
    connected_.erase(connector);
    making_.erase(connector);
    std::erase_if(ibs_, [&](const auto& ib) {
      if (ib->connector != connector) return false;
      network_.close(ib->stream);
      return true;
    });
    std::erase_if(ib_listeners_, [&](const auto& one) {
      if (one.second != connector) return false;
      network_.stop_listening(one.first);
      return true;
    });
  }
}

Result<SocketAddress> EmulatedSide::listen(uint32_t rank, ListenerId listener) {
  return network_.listen(*this, address(rank), listener);
}

void EmulatedSide::dial(uint32_t rank, const SocketAddress& to, StreamId stream) {
  network_.dial(*this, address(rank), to, stream);
}

Result<SocketAddress> EmulatedSide::expect(const NcclConnector& connector) {
  const Id listener = network_.new_id();
  ib_listeners_[listener] = connector;
  return network_.listen(*this, address(connector.emulated), listener);
}

void EmulatedSide::connect(const NcclConnector& connector, const SocketAddress& listener,
                           uint64_t magic) {
  if (magic != kNetIbMagic) ib_failure_ = "another magic";
  auto ib = std::make_unique<Ib>();
  ib->connector = connector;
  ib->stream = network_.new_id();
  ib->peer = make_peer(connector);
  network_.dial(*this, address(connector.emulated), listener, ib->stream);
  ibs_.push_back(std::move(ib));
}

}  // namespace understudy::nccl_rank
