#include "ctrl/peers/sockets/nccl_sockets.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// Calls to one address that are under way at a time: a listener's backlog has an end.
constexpr uint32_t kMostCalls = 64;
/// Who is not there yet is tried again as by NCCL (docs/nccl 1.2): 34 times, with pauses that grow.
constexpr Duration kRetry = Duration::ms(100);
constexpr uint32_t kMostRetries = 34;
/// For ever: with pauses that grow so long.
constexpr uint32_t kLongestPause = 10;

bool is_loopback(const IpAddress& address) {
  if (address.is_v4()) return address.v4_value() >> 24 == 127;
  return address == IpAddress::parse("::1");
}

IpAddress unspecified(const IpAddress& like) {
  return like.is_v4() ? IpAddress::v4(0) : IpAddress();
}

}  // namespace

Result<uint16_t> NcclSockets::open_port(const IpAddress& like, uint16_t port) {
  return network_.listen(unspecified(like), port,
                         [this](const AcceptedConnection& accepted) { return accept(accepted); });
}

Result<SocketAddress> NcclSockets::claim(uint32_t rank, Expected expected) {
  const IpAddress& address = addresses_[rank];
  auto& ports = ports_[address.is_v4()];
  for (size_t i = 0;; ++i) {
    if (i == ports.size()) {
      const auto port = TRY(open_port(address, 0));
      ports.push_back(port);
    }
    const SocketAddress at{address, ports[i]};
    if (expected_.try_emplace(at, expected).second) return at;
  }
}

Result<void> NcclSockets::listen_at(uint32_t rank, uint16_t port, ListenerId listener) {
  const SocketAddress at{addresses_[rank], port};
  if (auto opened = open_port(at.address, port); !opened) {
    return fail(at.text() + ": " + opened.error().text);
  }
  expected_[at] = Expected{listener, {}};
  listeners_[listener] = at;
  return {};
}

Result<SocketAddress> NcclSockets::listen(uint32_t rank, ListenerId listener) {
  auto at = claim(rank, Expected{listener, {}});
  if (at) listeners_[listener] = *at;
  return at;
}

void NcclSockets::stop_listening(ListenerId listener) {
  const auto found = listeners_.find(listener);
  if (found == listeners_.end() || listener == kept_) return;
  expected_.erase(found->second);
  listeners_.erase(found);
}

Result<SocketAddress> NcclSockets::expect(const NcclConnector& connector) {
  auto at = claim(connector.emulated, Expected{0, {connector}});
  if (at) awaited_[connector] = *at;
  return at;
}

Result<void> NcclSockets::expect_behind(const NcclConnector& connector,
                                        const NcclConnector& before) {
  const auto found = awaited_.find(before);
  if (found == awaited_.end()) return fail("its listener has closed");
  const SocketAddress at = found->second;
  expected_.at(at).connectors.push_back(connector);
  awaited_[connector] = at;
  return {};
}

void NcclSockets::release(const NcclConnector& connector) {
  const auto found = awaited_.find(connector);
  if (found == awaited_.end()) return;
  const auto expected = expected_.find(found->second);
  if (expected != expected_.end()) {
    std::erase(expected->second.connectors, connector);
    if (expected->second.connectors.empty()) expected_.erase(expected);
  }
  awaited_.erase(found);
}

std::unique_ptr<Peer> NcclSockets::accept(const AcceptedConnection& accepted) {
  const auto found = expected_.find({accepted.local, accepted.local_port});
  if (found == expected_.end()) return nullptr;
  if (is_early(found->second.listener)) {
    connections_.insert(accepted.id);
    const StreamId stream = new_stream();
    early_[stream] = {accepted.id, {accepted.client, accepted.client_port}, {}, false};
    return streams_.accept(stream, accepted.id);
  }
  if (communicator_ == nullptr) return nullptr;
  if (!found->second.connectors.empty()) {
    const NcclConnector connector = found->second.connectors.front();
    connections_.insert(accepted.id);
    return callbacks_.receiver(connector);
  }
  connections_.insert(accepted.id);
  const StreamId stream = new_stream();
  auto peer = streams_.accept(stream, accepted.id);
  communicator_->on_accepted(network_.now(), found->second.listener, stream,
                             {accepted.client, accepted.client_port});
  return peer;
}

bool NcclSockets::is_early(ListenerId listener) const {
  return kept_ && listener == kept_ &&
         (communicator_ == nullptr || communicator_->all_checked_in());
}

void NcclSockets::take_early() {
  for (const auto& [stream, early] : std::exchange(early_, {})) {
    communicator_->on_accepted(network_.now(), *kept_, stream, early.from);
    communicator_->on_bytes(network_.now(), stream, early.bytes);
    if (early.closed) communicator_->on_closed(network_.now(), stream, "");
  }
}

void NcclSockets::forget() {
  communicator_ = nullptr;
  std::unordered_set<ConnectionId> all = std::exchange(connections_, {});
  for (const auto& [stream, early] : early_) {
    if (all.erase(early.connection) > 0) connections_.insert(early.connection);
  }
  for (const ConnectionId id : all) network_.drop(id);
  calls_.clear();
  targets_.clear();
  awaited_.clear();
  std::erase_if(listeners_, [&](const auto& listener) { return listener.first != kept_; });
  std::erase_if(expected_,
                [&](const auto& expected) { return !kept_ || expected.second.listener != *kept_; });
}

void NcclSockets::dial(uint32_t rank, const SocketAddress& to, StreamId stream) {
  targets_[to].waiting.push_back({rank, stream, {}, 0});
}

void NcclSockets::connect(const NcclConnector& connector, const SocketAddress& listener,
                          uint64_t magic) {
  targets_[listener].waiting.push_back({connector.emulated, 0, connector, magic});
}

void NcclSockets::call(const SocketAddress& to, Target& target) {
  const Call call = target.waiting.front();
  target.waiting.pop_front();
  if (is_loopback(to.address) && !is_loopback(addresses_[call.rank])) {
    return drop(call, to.text() +
                          " is an address that only its own node reaches: NCCL_SOCKET_IFNAME there "
                          "is to name the interface of the job's network");
  }
  const IpAddress& from = addresses_[call.rank];
  const auto id = call.stream != 0
                      ? streams_.call(from, to, call.stream)
                      : network_.call(from, to, callbacks_.sender(call.connector, call.magic));
  if (!id) return drop(call, id.error().text);
  connections_.insert(*id);
  calls_[*id] = {to, call};
  ++target.under_way;
}

void NcclSockets::drop(const Call& call, const std::string& why) {
  if (call.stream != 0) {
    streams_.fail(call.stream, why);
  } else {
    communicator_->on_connector_failed(network_.now(), call.connector, why);
  }
}

void NcclSockets::make_calls() {
  const Time now = network_.now();
  for (auto it = targets_.begin(); it != targets_.end();) {
    Target& target = it->second;
    if (target.waiting.empty() && target.under_way == 0) {
      it = targets_.erase(it);
      continue;
    }
    const uint32_t most = target.refused == 0 ? kMostCalls : 1;
    while (!target.waiting.empty() && target.under_way < most && now >= target.retry) {
      call(it->first, target);
    }
    ++it;
  }
}

void NcclSockets::on_stream_connected(Time now, StreamId stream, ConnectionId connection) {
  if (const auto found = calls_.find(connection); found != calls_.end()) {
    Target& target = targets_[found->second.first];
    --target.under_way;
    target.refused = 0;
    calls_.erase(found);
  }
  if (communicator_ != nullptr) communicator_->on_connected(now, stream);
}

void NcclSockets::on_stream_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  if (const auto early = early_.find(stream); early != early_.end()) {
    early->second.bytes.insert(early->second.bytes.end(), bytes.begin(), bytes.end());
  } else if (communicator_ != nullptr) {
    communicator_->on_bytes(now, stream, bytes);
  }
}

void NcclSockets::on_stream_closed(Time now, StreamId stream, const std::string& why) {
  if (const auto early = early_.find(stream); early != early_.end()) {
    early->second.closed = true;
  } else if (communicator_ != nullptr) {
    communicator_->on_closed(now, stream, why);
  }
}

bool NcclSockets::on_ended(const EndedConnection& ended) {
  if (connections_.erase(ended.id) == 0) return false;
  const auto found = calls_.find(ended.id);
  if (found == calls_.end()) return true;
  const auto [to, call] = found->second;
  calls_.erase(found);
  Target& target = targets_[to];
  --target.under_way;
  if (ended.connected) return true;
  const bool patient = patient_ == to;
  if (++target.refused > kMostRetries && !patient) {
    drop(call, ended.failure);
    return true;
  }
  target.retry = network_.now() +
                 kRetry * (patient ? std::min(target.refused, kLongestPause) : target.refused);
  target.waiting.push_front(call);
  return true;
}

void NcclSockets::close(StreamId stream) {
  streams_.close(stream);
  for (auto& [to, target] : targets_) {
    std::erase_if(target.waiting, [&](const Call& call) { return call.stream == stream; });
  }
}

void NcclSockets::poll() {
  make_calls();
  streams_.pump();
}

void NcclSockets::on_connector(const NcclConnector& connector, const std::string& failure) {
  release(connector);
  if (communicator_ == nullptr) return;
  if (failure.empty()) {
    communicator_->on_connector_ready(network_.now(), connector);
  } else {
    communicator_->on_connector_failed(network_.now(), connector, failure);
  }
}

void NcclSockets::disconnect(const NcclConnector& connector) {
  release(connector);
  callbacks_.disconnect(connector);
}

}  // namespace understudy
