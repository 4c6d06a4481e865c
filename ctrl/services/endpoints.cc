#include "ctrl/services/endpoints.h"

#include <algorithm>
#include <map>

#include "ctrl/compile/qp_control.h"
#include "ctrl/compile/shard_config.h"
#include "dataplane/base/try.h"

namespace understudy {

namespace {

constexpr uint8_t kOutstandingReads = 128;  ///< what perftest is told, and what rxe keeps in flight
/// 4.096 us << 18 = 1.07 s: a guest that stands still for half a second loses no connection.
constexpr uint8_t kServiceTimeout = 18;
/// pingpong and the latency tests have one message under way; other programs may have some more.
constexpr uint32_t kEchoes = 16;
/// A READ or WRITE, the SEND behind it, and the last one's SEND that is not acknowledged yet.
constexpr uint32_t kRpingRequests = 4;

RegionKind region_kind(const EndpointRequest& request) {
  switch (request.behaviour) {
    case Behaviour::kSendEcho:
    case Behaviour::kWriteEcho:
    case Behaviour::kRping:
    case Behaviour::kRpingClient:
    case Behaviour::kMessages:
      return RegionKind::kBacked;
    default:
      break;
  }
  switch (request.memory) {
    case MemoryKind::kDiscard:
      return RegionKind::kDiscard;
    case MemoryKind::kPattern:
      return RegionKind::kPattern;
    case MemoryKind::kBacked:
      return RegionKind::kBacked;
  }
  return RegionKind::kDiscard;
}

/// Of the region, for behaviours whose clients need not know of it.
uint64_t region_bytes(const EndpointRequest& request) {
  if (request.behaviour == Behaviour::kMessages) return MessagePipe::kMostBytes;
  if (request.behaviour == Behaviour::kRpingClient) {
    return RpingClient::memory_for(request.traffic.bytes);
  }
  return request.region_bytes;
}

/// Work requests that the behaviour may have outstanding; each takes memory from the start.
uint32_t send_queue(const EndpointRequest& request) {
  switch (request.behaviour) {
    case Behaviour::kMemoryTarget:
    case Behaviour::kReceiveSink:
      return 0;
    case Behaviour::kSendEcho:  // for each message that the client has under way
    case Behaviour::kWriteEcho:
      return kEchoes;
    case Behaviour::kRping:
    case Behaviour::kRpingClient:
      return kRpingRequests;
    case Behaviour::kMessages:
      return MessagePipe::kSlots;
    case Behaviour::kSendBurst:
      return request.burst_messages;
    case Behaviour::kTraffic:
      return request.traffic.window;
    case Behaviour::kDatagramEcho:  // has no queues
    case Behaviour::kRing:          // JobRunner makes those
    case Behaviour::kNccl:
      break;
  }
  return 0;
}

/// How much of it SENDs are placed in; nothing: they are discarded.
uint64_t receive_bytes(const EndpointRequest& request) {
  switch (request.behaviour) {
    case Behaviour::kSendEcho:
      return request.region_bytes;
    case Behaviour::kRping:
    case Behaviour::kRpingClient:
      return kRpingMessageBytes;
    case Behaviour::kMessages:
      return MessagePipe::kMostBytes;
    default:
      return 0;
  }
}

}  // namespace

Result<size_t> ServiceEndpoints::port_for(const IpAddress& real) const {
  for (size_t i = 0; i < config_.ports.size(); ++i) {
    const PortConfig& port = config_.ports[i];
    const NicConfig& nic = config_.nodes[port.node].nics[port.nic];
    if (nic.v4 == real || nic.v6 == real) return i;
  }
  return fail("no port of the configuration leads to a real node with the address " + real.text());
}

Result<EndpointReady> ServiceEndpoints::create(NodeId node, uint64_t connection,
                                               const EndpointRequest& request) {
  const auto port = TRY(port_for(request.remote));
  Made* made = request.reserved == 0 ? nullptr : reserved(connection, request.reserved);
  if (made == nullptr) {
    made = TRY(reserve(node, connection, port, request));
  }
  if (request.behaviour == Behaviour::kDatagramEcho) {
    made->connected = true;
    made->control->add_datagram_qp(datagram_qp(node, port, made->qpn, request));
  } else if (!request.reserve) {
    connect(connection, *made, qp_config(node, port, made->qpn, request), request,
            make_qp_control(config_, topology_, request.sender, node, config_.ports[port].nic,
                            config_.ports[port], request.mtu));
  }
  return EndpointReady{made->qpn, request.local_psn, made->region.va, made->region.rkey};
}

/// Of what jobs leave of a shard, half of an even share is kept for each real node: none can take from
/// others that they connect.
Result<void> ServiceEndpoints::leave_others_their_share(size_t port) const {
  const ShardControl& control = *controls_[port];
  const size_t left = control.connections_left();
  std::map<NodeId, size_t> held;
  size_t all = left;
  for (size_t p = 0; p < controls_.size(); ++p) {
    if (controls_[p] != &control) continue;
    held[config_.ports[p].node] += held_[p];
    all += held_[p];
  }
  const NodeId node = config_.ports[port].node;
  const size_t share = all / (2 * held.size());
  size_t kept = 0;
  for (const auto& [other, its] : held) {
    if (other != node) kept += share - std::min(share, its);
  }
  if (kept == 0 || left > kept) return {};
  return fail("no queue pair or memory region is left for " + config_.nodes[node].name +
              ", which has " + std::to_string(held[node]) + ": " + std::to_string(kept) +
              " are kept for the real nodes at other ports ([limits] queue_pairs, regions)");
}

Result<ServiceEndpoints::Made*> ServiceEndpoints::reserve(NodeId node, uint64_t connection,
                                                          size_t port,
                                                          const EndpointRequest& request) {
  TRY(leave_others_their_share(port));
  auto made = std::make_unique<Made>();
  made->control = controls_[port];
  made->port = static_cast<uint32_t>(port);
  made->qpn = made->control->take_qpn();
  if (made->qpn == 0) return fail("no queue pair is left on this port");
  auto region = made->control->add_region(
      node, region_bytes(request), kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic,
      region_kind(request));
  if (!region) {
    made->control->return_qpn(made->qpn);
    return fail(region.error().text);
  }
  made->region = *region;
  made->region_bytes = region_bytes(request);
  ++held_[port];
  return made_.emplace(connection, std::move(made))->second.get();
}

ServiceEndpoints::Made* ServiceEndpoints::reserved(uint64_t connection, Qpn qpn) {
  const auto [first, last] = made_.equal_range(connection);
  const auto it = std::find_if(first, last, [&](const auto& entry) {
    return entry.second->qpn == qpn && !entry.second->connected;
  });
  return it == last ? nullptr : it->second.get();
}

QpConfig ServiceEndpoints::qp_config(NodeId node, size_t port, Qpn qpn,
                                     const EndpointRequest& request) const {
  QpConfig config;
  config.node = node;
  config.qpn = qpn;
  config.remote_qpn = request.remote_qpn;
  config.rq_psn = request.remote_psn;
  config.sq_psn = request.local_psn;
  config.mtu = request.mtu;
  config.timeout = std::max(request.timeout, kServiceTimeout);
  config.retry_count = request.retry_count;
  config.rnr_retry = request.rnr_retry;
  config.min_rnr_timer = request.min_rnr_timer;
  config.max_dest_rd_atomic = kOutstandingReads;
  config.max_rd_atomic = request.max_rd_atomic;
  config.send_queue = send_queue(request);
  // We obey the client's credits; it has no limit from us, as receives here are endless.
  config.flow_control = request.flow_control;
  config.unreliable = request.unreliable;
  if (request.awaits_client) config.start = QpState::kRtr;
  config.addressing = addressing(node, port, qpn, request);
  return config;
}

DatagramQp ServiceEndpoints::datagram_qp(NodeId node, size_t port, Qpn qpn,
                                         const EndpointRequest& request) const {
  DatagramQp qp;
  qp.node = node;
  qp.qpn = qpn;
  qp.qkey = request.qkey;
  qp.mtu = request.mtu;
  qp.next = request.local_psn;
  qp.addressing = addressing(node, port, qpn, request);
  return qp;
}

RoceAddressing ServiceEndpoints::addressing(NodeId node, size_t port, Qpn qpn,
                                            const EndpointRequest& request) const {
  const NicConfig& nic = config_.nodes[node].nics[config_.ports[port].nic];
  RoceAddressing a;
  a.src_mac = nic.mac;
  a.vlan_tci = vlan_tci(nic);
  a.src = request.local;
  a.dst = request.remote;
  a.traffic_class = request.sender.traffic_class;
  a.udp_src = udp_source_port(config_, qpn, request.remote_qpn);
  return a;
}

void ServiceEndpoints::connect(uint64_t connection, Made& made, const QpConfig& config,
                               const EndpointRequest& request, std::unique_ptr<QpControl> control) {
  made.connected = true;
  const ExposedRegion& region = made.region;
  // Endpoints that speak first are told their queue pair.
  std::function<void(Qp&)> introduce;
  const auto keep = [&](auto endpoint) {
    introduce = [e = endpoint.get()](Qp& qp) { e->set_qp(qp); };
    made.endpoint = std::move(endpoint);
  };
  switch (request.behaviour) {
    case Behaviour::kSendEcho:
      made.endpoint =
          std::make_unique<SendEcho>(std::span<const uint8_t>(region.bytes, made.region_bytes));
      break;
    case Behaviour::kWriteEcho:
      keep(std::make_unique<WriteEcho>(
          WriteEcho::Setup{region.bytes, region.va, made.region_bytes}));
      break;
    case Behaviour::kTraffic: {
      made.traffic = std::make_unique<TrafficProgress>();
      const TrafficRequest& t = request.traffic;
      keep(std::make_unique<TrafficSource>(TrafficSource::Setup{t.op, t.bytes, t.count, t.window},
                                           *made.traffic));
      break;
    }
    case Behaviour::kRping: {
      const std::span<uint8_t> bytes(region.bytes, made.region_bytes);
      made.endpoint = std::make_unique<RpingServer>(bytes.first(kRpingMessageBytes),
                                                    bytes.subspan(kRpingMessageBytes));
      break;
    }
    case Behaviour::kRpingClient: {
      made.traffic = std::make_unique<TrafficProgress>();
      const TrafficRequest& t = request.traffic;
      keep(std::make_unique<RpingClient>(
          RpingClient::Setup{
              {region.bytes, made.region_bytes}, region.va, region.rkey, t.bytes, t.count},
          *made.traffic));
      break;
    }
    case Behaviour::kSendBurst:
      keep(std::make_unique<SendBurst>(request.burst_messages, request.burst_bytes));
      break;
    case Behaviour::kMessages: {
      auto pipe = std::make_unique<MessagePipe>(
          std::span<const uint8_t>(region.bytes, MessagePipe::kMostBytes));
      made.pipe = pipe.get();
      keep(std::move(pipe));
      break;
    }
    case Behaviour::kMemoryTarget:
    case Behaviour::kReceiveSink:
    case Behaviour::kDatagramEcho:  // has none
    case Behaviour::kRing:          // JobRunner makes those
    case Behaviour::kNccl:
      made.endpoint = std::make_unique<MemoryTarget>();
      break;
  }
  if (made.traffic != nullptr || made.pipe != nullptr) {
    watched_.emplace(std::pair(connection, made.qpn), &made);
  }
  const bool contents = region_kind(request) == RegionKind::kBacked;
  const auto prepare = [&](Qp& fresh) {
    fresh.responder().set_endless_receives();
    if (const uint64_t bytes = receive_bytes(request); bytes != 0) {
      fresh.responder().set_receive_buffer({region.bytes, bytes});
    }
    if (introduce) introduce(fresh);
  };
  made.control->add_qp(config, *made.endpoint, contents, prepare, std::move(control));
}

void ServiceEndpoints::start(const EndpointStart& start) {
  for (auto& [connection, made] : made_) {
    if (made->qpn != start.qpn) continue;
    made->remote = {start.remote_address, start.remote_rkey, start.opening_bytes};
    made->control->wake(*made->endpoint, reinterpret_cast<uint64_t>(&made->remote));
  }
}

std::vector<ServiceEndpoints::EndedTraffic> ServiceEndpoints::take_ended_traffic() {
  std::vector<EndedTraffic> ended;
  for (const auto& [name, made] : watched_) {
    const TrafficProgress* traffic = made->traffic.get();
    if (traffic == nullptr || made->told || !traffic->ended.load(std::memory_order_acquire))
      continue;
    made->told = true;
    ended.push_back({name.first,
                     {made->qpn, traffic->completed, traffic->first, traffic->last, traffic->status,
                      traffic->wrong}});
  }
  return ended;
}

void ServiceEndpoints::modify(uint64_t connection, QpState state) {
  const auto [first, last] = made_.equal_range(connection);
  for (auto it = first; it != last; ++it) it->second->control->modify_qp(it->second->qpn, state);
}

std::vector<ServiceEndpoints::Heard> ServiceEndpoints::take_heard(const ShardControl& control) {
  std::vector<Heard> heard;
  for (const auto& [name, made] : watched_) {
    if (made->pipe == nullptr || made->control != &control) continue;
    MessagePipe::Message message;
    while (made->pipe->from_client().pop(message)) {
      heard.push_back(
          {name.first, {message.bytes.begin(), message.bytes.begin() + message.length}, false});
    }
    if (made->pipe->failed() && !made->told) {
      made->told = true;
      heard.push_back({name.first, {}, true});
    }
  }
  return heard;
}

void ServiceEndpoints::send(uint64_t connection, std::span<const uint8_t> bytes) {
  MessagePipe::Message message;
  message.length = static_cast<uint32_t>(std::min<size_t>(bytes.size(), message.bytes.size()));
  std::copy_n(bytes.begin(), message.length, message.bytes.begin());
  const auto [first, last] = made_.equal_range(connection);
  for (auto it = first; it != last; ++it) {
    Made& made = *it->second;
    if (made.pipe == nullptr || !made.pipe->send(message)) continue;
    ++made.sent;
    made.control->wake(*made.endpoint, 0);
  }
}

bool ServiceEndpoints::all_delivered(uint64_t connection) const {
  const auto [first, last] = made_.equal_range(connection);
  return std::all_of(first, last, [](const auto& entry) {
    const Made& made = *entry.second;
    return made.pipe == nullptr || made.pipe->failed() || made.pipe->acknowledged() == made.sent;
  });
}

void ServiceEndpoints::remove(uint64_t connection) {
  const auto [first, last] = made_.equal_range(connection);
  for (auto it = first; it != last; ++it) {
    // The endpoint lives until the shard has let go of its queue pair.
    std::shared_ptr<Made> made(std::move(it->second));
    watched_.erase({connection, made->qpn});
    --held_[made->port];
    const auto let_go = [made] { made->control->remove_region(made->region.index); };
    if (!made->connected) {
      made->control->return_qpn(made->qpn);
      let_go();
    } else {
      made->control->remove_qp(made->qpn, let_go);
    }
  }
  made_.erase(first, last);
}

}  // namespace understudy
