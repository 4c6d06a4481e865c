#include "ctrl/virtual_host/virtual_host.h"

#include <algorithm>
#include <utility>

#include "dataplane/base/pattern.h"

namespace understudy {
namespace {

constexpr size_t kMostConnections = 65536;
/// Of machines' output; above it nothing more is read from the other side, which must read first.
constexpr size_t kMostUnacknowledged = size_t{16} << 20;
/// How long a connection stays whose other side has yet to close it, or may yet repeat its FIN.
constexpr Duration kLinger = Duration::s(60);
constexpr uint16_t kFirstPort = 32768, kLastPort = 60999;  // Linux' range
/// From one initial sequence number to the next. A Linux that still has the ports' last connection
/// in TIME_WAIT takes a call whose number is later.
constexpr uint32_t kSeqStep = 64'000;

IpAddress any_like(const IpAddress& address) {
  return address.is_v4() ? IpAddress::v4(0) : IpAddress();
}

}  // namespace

VirtualHost::VirtualHost(const HostNamespaceSpec& spec, uint64_t seed, Callbacks callbacks,
                         FrameOut out)
    : PeerCarrier(std::move(callbacks)),
      spec_(spec),
      real_(spec.real.begin(), spec.real.end()),
      out_(std::move(out)),
      last_seq_(static_cast<uint32_t>(splitmix64(seed))),
      last_port_(kLastPort) {}

bool VirtualHost::is_emulated(const IpAddress& address) const {
  return !real_.contains(address) &&
         std::ranges::any_of(spec_.emulated,
                             [&](const IpPrefix& prefix) { return prefix.contains(address); });
}

TcpSettings VirtualHost::settings(const IpAddress& address) const {
  TcpSettings settings;
  settings.mss = spec_.mtu - tcp_header_bytes(address.is_v4());
  return settings;
}

uint32_t VirtualHost::new_seq() { return last_seq_ += kSeqStep; }

uint16_t VirtualHost::free_port(const std::function<bool(uint16_t)>& taken) {
  for (unsigned tries = 0; tries <= kLastPort - kFirstPort; ++tries) {
    last_port_ = last_port_ == kLastPort ? kFirstPort : static_cast<uint16_t>(last_port_ + 1);
    if (!taken(last_port_)) return last_port_;
  }
  return 0;
}

const VirtualHost::Listener* VirtualHost::listener_at(const SocketAddress& at) const {
  auto found = listeners_.find(at);
  if (found == listeners_.end()) found = listeners_.find({any_like(at.address), at.port});
  return found == listeners_.end() ? nullptr : &found->second;
}

bool VirtualHost::is_listened_to(const SocketAddress& at) const {
  if (at.address != any_like(at.address)) return listener_at(at) != nullptr;
  return std::ranges::any_of(listeners_, [&](const auto& listener) {
    return listener.first.port == at.port && any_like(listener.first.address) == at.address;
  });
}

Result<uint16_t> VirtualHost::listen(const IpAddress& any, uint16_t port, Acceptor acceptor) {
  const auto taken = [&](uint16_t p) { return is_listened_to({any, p}); };
  if (port == 0) {
    port = free_port(taken);
    if (port == 0) return fail("listen " + any.text() + ": no port is free");
  } else if (taken(port)) {
    return fail("listen " + SocketAddress{any, port}.text() + ": Address already in use");
  }
  listeners_[{any, port}] = {kNoNode, std::move(acceptor)};
  return port;
}

Result<void> VirtualHost::listen_at(const SocketAddress& at, NodeId node, Acceptor acceptor) {
  if (!is_emulated(at.address)) {
    return fail("listen " + at.text() + ": it is no emulated node's address");
  }
  if (is_listened_to(at)) return fail("listen " + at.text() + ": Address already in use");
  listeners_[at] = {node, std::move(acceptor)};
  return {};
}

Result<ConnectionId> VirtualHost::call_for(NodeId node, const IpAddress& from,
                                           const SocketAddress& to, std::unique_ptr<Peer> peer) {
  const std::string what = "connect " + from.text() + " to " + to.text() + ": ";
  if (!is_emulated(from)) return fail(what + from.text() + " is no emulated node's address");
  if (!is_emulated(to.address) && !real_.contains(to.address)) {
    return fail(what + "Network is unreachable");
  }
  if (from.is_v4() != to.address.is_v4()) return fail(what + "addresses of two families");
  const uint16_t port = free_port([&](uint16_t p) {
    const SocketAddress local{from, p};
    return local == to || flows_.contains({local, to});
  });
  if (port == 0) return fail(what + "no port is free");
  const ConnectionId id = new_id();
  const TcpFlow key{{from, port}, to};
  Flow& flow = flows_.emplace(key, Flow{TcpConnection(key, settings(from), new_seq(), *this), id})
                   .first->second;
  by_id_[id] = &flow;
  add_dialled(id, node, to, std::move(peer));
  flow.tcp.push(now_);
  settle(flow);
  return id;
}

void VirtualHost::on_frame(Time now, std::span<const uint8_t> frame) {
  now_ = std::max(now_, now);
  take(frame, false);
  end_turn();
}

void VirtualHost::on_time(Time now) {
  now_ = std::max(now_, now);
  for (size_t frames = local_.size(); frames > 0; --frames) {
    const auto frame = std::move(local_.front());
    local_.pop_front();
    take(frame, true);
  }
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    Flow& flow = flows_.at(timers_.begin()->second);
    flow.tcp.on_time(now_);
    serve(flow);
  }
  end_turn();
}

Time VirtualHost::deadline() const {
  if (has_ended() || !local_.empty()) return now_;
  return timers_.empty() ? Time::never() : timers_.begin()->first;
}

void VirtualHost::take(std::span<const uint8_t> frame, bool ours) {
  TcpFlow key;
  TcpSegment segment;
  switch (parse_tcp(frame, key, segment)) {
    case TcpFrameKind::kOther:
      ++counters_.other_frames;
      return;
    case TcpFrameKind::kMalformed:
      ++counters_.malformed;
      return;
    case TcpFrameKind::kBadChecksum:
      ++counters_.bad_checksums;
      return;
    case TcpFrameKind::kTcp:
      break;
  }
  // What comes from outside as ours is a forgery; answers would go round within.
  if (!is_emulated(key.local.address) || (!ours && is_emulated(key.remote.address))) {
    ++counters_.other_addresses;
    return;
  }
  ++counters_.segments_in;
  auto found = flows_.find(key);
  if (found != flows_.end() && found->second.tcp.state() == TcpState::kTimeWait &&
      TcpConnection::is_call(segment) &&
      tcp_after(segment.seq, found->second.tcp.next_expected()) > 0) {
    flows_.erase(found);  // it has no timer, and no machine
    found = flows_.end();
  }
  if (found == flows_.end()) return take_call(key, segment);
  found->second.tcp.on_segment(segment);
  serve(found->second);
}

void VirtualHost::take_call(const TcpFlow& key, const TcpSegment& segment) {
  const Listener* listener = TcpConnection::is_call(segment) ? listener_at(key.local) : nullptr;
  if (listener == nullptr) {
    if (const auto reset = TcpConnection::reset_for(segment)) {
      ++counters_.resets_sent;
      send(key, *reset);
    }
    return;
  }
  if (flows_.size() >= kMostConnections) return;  // the call will be repeated
  Flow& flow =
      flows_
          .emplace(key,
                   Flow{TcpConnection(key, settings(key.local.address), new_seq(), *this, segment),
                        0, listener})
          .first->second;
  flow.tcp.push(now_);
  settle(flow);
}

void VirtualHost::serve(Flow& flow) {
  TcpConnection& tcp = flow.tcp;
  if (!flow.told && tcp.connected()) {
    flow.told = true;
    if (flow.listener != nullptr) {
      accept(flow);
    } else if (flow.id != 0) {
      on_connected(flow.id);
    }
  }
  if (flow.id != 0 && !flow.told && tcp.state() == TcpState::kClosed) {
    flow.told = true;
    const bool refused = tcp.end() == TcpEnd::kReset;
    on_not_connected(flow.id, refused ? "Connection refused" : "Connection timed out", refused);
  }
  if (flow.id != 0 && tcp.unread() != 0 && tcp.unacknowledged() <= kMostUnacknowledged) {
    on_bytes(flow.id, tcp.read());
  }
  if (flow.id != 0 && tcp.unread() == 0 && tcp.end_of_input()) on_closed(flow.id);
  tcp.push(now_);
  settle(flow);
}

void VirtualHost::accept(Flow& flow) {
  const TcpFlow& key = flow.tcp.flow();
  const AcceptedConnection accepted{new_id(), key.local.address, key.remote.address, key.local.port,
                                    key.remote.port};
  auto peer = flow.listener->acceptor(accepted);
  if (peer == nullptr) return flow.tcp.close();
  flow.id = accepted.id;
  by_id_[flow.id] = &flow;
  add_accepted(accepted, flow.listener->node, std::move(peer));
}

void VirtualHost::write(ConnectionId id, std::span<const uint8_t> bytes) {
  by_id_.at(id)->tcp.write(bytes);
}

bool VirtualHost::push(ConnectionId id) {
  Flow& flow = *by_id_.at(id);
  flow.tcp.push(now_);
  settle(flow);
  return true;  // what has been written is TCP's to deliver
}

void VirtualHost::close(ConnectionId id) {
  const auto found = by_id_.find(id);
  Flow& flow = *found->second;
  by_id_.erase(found);
  flow.id = 0;
  flow.tcp.close();
  flow.tcp.push(now_);
  settle(flow);
}

void VirtualHost::send(const TcpFlow& flow, const TcpSegment& segment) {
  ++counters_.segments_out;
  auto frame = build_tcp(flow, segment);
  if (is_emulated(flow.remote.address)) {
    local_.push_back(std::move(frame));
  } else {
    out_(frame);
  }
}

void VirtualHost::settle(Flow& flow) {
  const TcpFlow& key = flow.tcp.flow();
  counters_.retransmissions += flow.tcp.retransmissions() - flow.retransmissions;
  flow.retransmissions = flow.tcp.retransmissions();
  if (flow.filed != flow.tcp.deadline()) {
    if (!flow.filed.is_never()) timers_.erase({flow.filed, key});
    flow.filed = flow.tcp.deadline();
    if (!flow.filed.is_never()) timers_.insert({flow.filed, key});
  }
  const TcpState state = flow.tcp.state();
  if (state == TcpState::kClosed) closed_.push_back(key);
  if ((state == TcpState::kTimeWait || state == TcpState::kFinWait2) &&
      flow.linger_until.is_never()) {
    flow.linger_until = now_ + kLinger;
    lingering_.push_back({flow.linger_until, key});
  }
}

void VirtualHost::end_turn() {
  report_ended();
  while (!lingering_.empty() && lingering_.front().first <= now_) {
    const auto found = flows_.find(lingering_.front().second);
    if (found != flows_.end() && found->second.linger_until <= now_) flows_.erase(found);
    lingering_.pop_front();
  }
  for (const TcpFlow& key : closed_) {
    const auto found = flows_.find(key);
    if (found != flows_.end() && found->second.tcp.state() == TcpState::kClosed) {
      flows_.erase(found);
    }
  }
  closed_.clear();
}

}  // namespace understudy
