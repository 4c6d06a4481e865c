#include "ctrl/jobs/operations/one_sided_links.h"

#include <algorithm>
#include <cstring>

#include "ctrl/compile/qp_control.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// READs and ATOMICs that NCCL's queue pairs have under way (net_ib/connect.cc).
constexpr uint8_t kReadsAtOnce = 1;
constexpr uint8_t kMemoryAccess = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
/// Bytes of windows whose contents are kept, of all emulated ranks.
constexpr uint64_t kMostWindowBytes = uint64_t{4} << 30;
/// Of a window whose size is not told: no GPU has more.
constexpr uint64_t kUntoldBytes = uint64_t{1} << 40;

}  // namespace

OneSidedLinks::~OneSidedLinks() {
  while (!links_.empty()) remove(links_.begin()->first);
}

Result<EndpointReady> OneSidedLinks::create(const NodeConfig& emulated, const NodeConfig& real,
                                            const EndpointRequest& request) {
  const NcclLinkRequest& wanted = *request.nccl;
  if (wanted.failover || wanted.local.size() != 1 || wanted.queue_pairs != 1 ||
      (!request.reserve && wanted.devices.size() != 1)) {
    return fail(
        "connections for one-sided operations are played without port failover and merged "
        "NICs, over one queue pair, as NCCL has them by default");
  }
  const auto known = links_.find(wanted.connector);
  auto link = known == links_.end() ? nullptr : known->second;
  if (link != nullptr && (link->made || request.reserve)) {
    return fail("the connection has been made already");
  }
  if (link == nullptr) link = TRY(reserve(emulated.index, request));
  if (!request.reserve) connect(link, emulated, real, request);
  return link->end;
}

std::shared_ptr<OneSidedLinks::Mesh> OneSidedLinks::mesh_of(const NcclConnector& connector) {
  const Rank rank{connector.communicator, connector.emulated};
  auto& known = meshes_[{rank, connector.channel}];
  auto mesh = known.lock();
  if (mesh == nullptr) {
    mesh = std::make_shared<Mesh>(traffic_);
    known = mesh;
  }
  return mesh;
}

OneSidedLinks::LinksOfRank OneSidedLinks::links_of(const Rank& rank) const {
  const NcclConnector first{.communicator = rank.first, .emulated = rank.second};
  const NcclConnector behind{.communicator = rank.first, .emulated = rank.second + 1};
  return {links_.lower_bound(first), links_.lower_bound(behind)};
}

Result<std::shared_ptr<OneSidedLinks::Link>> OneSidedLinks::reserve(
    NodeId node, const EndpointRequest& request) {
  const NcclConnector& connector = request.nccl->connector;
  auto link = std::make_shared<Link>();
  const Qpn qpn = control_.take_qpn();
  if (qpn == 0) {
    return fail("no queue pair is left on this port: limits.queue_pairs is " +
                std::to_string(config_.limits.queue_pairs));
  }
  // Credits go to a sender, messages to a receiver, on the ring; on the mesh nobody uses it.
  const bool ring = connector.index == kOneSidedRing;
  const uint64_t bytes = ring && connector.real_sends
                             ? uint64_t{RelayedConnection::kSlots} * RelayedConnection::kMostBytes
                             : settings_.layout.fifo_bytes();
  auto region = control_.add_region(node, bytes, kAccessRemoteWrite,
                                    ring ? RegionKind::kBacked : RegionKind::kDiscard);
  if (!region) {
    control_.return_qpn(qpn);
    return fail(region.error().text);
  }
  link->region = *region;
  link->end.qpn = qpn;
  link->end.qpns = {qpn};
  link->end.address = region->va;
  link->end.rkey = region->rkey;
  if (ring) {
    link->relayed = std::make_shared<RelayedConnection>(connector.real_sends);
  } else {
    link->mesh = mesh_of(connector);
  }
  links_.emplace(connector, link);
  return link;
}

const PortConfig& OneSidedLinks::port_to(const NcclNic& real) const {
  return *std::ranges::find_if(config_.ports, [&](const PortConfig& port) {
    return port.node == real.node->index && port.nic == real.nic;
  });
}

void OneSidedLinks::prepare(Link& link, const EndpointRequest& request, Qp& qp) {
  const NcclLinkRequest& wanted = *request.nccl;
  const CtsLayout& layout = settings_.layout;
  if (link.mesh != nullptr) {
    if (!wanted.connector.real_sends) link.mesh->rank.set_out(qp);
    return;
  }
  const NcclQps qps{{&qp}, false, 1, {}};
  const DeviceRkeys key = wanted.devices.front().rkey;
  if (!wanted.connector.real_sends) {
    link.relayed->sender().connect({.qps = qps, .layout = layout, .fifo = link.region.bytes});
    return;
  }
  link.staging.reset(new uint8_t[size_t{layout.slots} * layout.entry_bytes]);
  link.relayed->receiver(link.region.bytes)
      .connect({.qps = qps,
                .layout = layout,
                .fifo_va = wanted.fifo_address,
                .fifo_rkey = key,
                .buffer_va = link.region.va,
                .buffer_rkey = link.region.rkey,
                .slots = RelayedConnection::kSlots,
                .slot_bytes = RelayedConnection::kMostBytes,
                .sender_rank = wanted.connector.sender,
                .staging = link.staging.get()});
}

void OneSidedLinks::connect(const std::shared_ptr<Link>& link, const NodeConfig& emulated,
                            const NodeConfig& real, const EndpointRequest& request) {
  const NcclLinkRequest& wanted = *request.nccl;
  const NcclConnector& connector = wanted.connector;
  const bool sends = !connector.real_sends;
  const NcclNic near{&emulated, nic_with(emulated, wanted.local.front())};
  const NcclNic far{&real, nic_with(real, wanted.devices.front().gid)};
  QpConfig config = nccl_queue_pair(
      config_, settings_.version, near, far, link->end.qpn, wanted.remote_qpns.front(), request.mtu,
      request.sender.traffic_class, connector.index == kOneSidedRing && !sends);
  config.send_queue = OneSidedRank::kSendQueue;
  config.max_rd_atomic = config.max_dest_rd_atomic = kReadsAtOnce;
  // As NCCL makes the queue pair of who is put to.
  if (!sends) config.access |= kAccessRemoteAtomic;
  if (!sends && settings_.version.minor >= 30) config.access |= kAccessRemoteRead;
  auto steered = sends ? make_qp_control(config_, settings_.topology, request.sender,
                                         near.node->index, near.nic, port_to(far), request.mtu)
                       : nullptr;
  Endpoint& endpoint = link->relayed != nullptr ? static_cast<Endpoint&>(*link->relayed)
                                                : static_cast<Endpoint&>(link->mesh->rank);
  const auto prepared = [&](Qp& qp) { prepare(*link, request, qp); };
  control_.add_qp(config, endpoint, true, prepared, std::move(steered));
  link->made = true;
  if (link->mesh == nullptr) return;
  // What was registered before this one.
  const auto all = registered_.find({connector.communicator, connector.emulated});
  if (all == registered_.end() || sends) return;
  for (const Registered& one : all->second) {
    if (one.known && reaches(connector, one)) tell(*link->mesh, one);
  }
}

void OneSidedLinks::join(const NcclConnector& connector) {
  const auto found = links_.find(connector);
  if (found == links_.end() || !found->second->made) return;
  Link& link = *found->second;
  if (link.relayed != nullptr) {
    control_.wake(*link.relayed, RelayedConnection::kJoin);
  } else if (!connector.real_sends) {
    control_.wake(link.mesh->rank, OneSidedRank::kJoin);
  }
}

void OneSidedLinks::remove(const NcclConnector& connector) {
  const auto it = links_.find(connector);
  if (it == links_.end()) return;
  const std::shared_ptr<Link> link = std::move(it->second);
  links_.erase(it);
  ShardControl& control = control_;
  // A rank's memory goes with the last of its connections.
  std::vector<uint32_t> regions = {link->region.index};
  const Rank rank{connector.communicator, connector.emulated};
  const LinksOfRank left = links_of(rank);
  const bool last = left.first == left.last;
  if (const auto all = registered_.find(rank); last && all != registered_.end()) {
    for (const Registered& one : all->second) {
      if (one.shares) continue;
      regions.push_back(one.region.index);
      const bool window = one.memory.use == NcclHost::OneSidedUse::kWindow;
      if (window && one.region.bytes != nullptr) kept_bytes_ -= one.memory.bytes;
    }
    registered_.erase(all);
  }
  if (!link->made) {
    control.return_qpn(link->end.qpn);
    for (const uint32_t region : regions) control.remove_region(region);
    return;
  }
  control.remove_qp(link->end.qpn, [link, regions, &control] {
    for (const uint32_t region : regions) control.remove_region(region);
  });
}

void OneSidedLinks::relay(const NcclConnector& connector, std::span<const uint8_t> bytes) {
  const auto found = links_.find(connector);
  if (found == links_.end() || found->second->relayed == nullptr) return;
  RelayedConnection::Message message;
  message.length = static_cast<uint32_t>(std::min(bytes.size(), message.bytes.size()));
  std::copy_n(bytes.begin(), message.length, message.bytes.begin());
  found->second->relayed->send(message);
  if (found->second->made) control_.wake(*found->second->relayed, RelayedConnection::kMore);
}

void OneSidedLinks::take(
    const std::function<void(const NcclConnector&, std::span<const uint8_t>)>& take) {
  // Who takes may ask for more connections.
  std::vector<std::pair<NcclConnector, std::shared_ptr<RelayedConnection>>> rings;
  for (const auto& [connector, link] : links_) {
    if (connector.real_sends && link->made && link->relayed != nullptr) {
      rings.emplace_back(connector, link->relayed);
    }
  }
  for (const auto& [connector, relayed] : rings) {
    RelayedConnection::Message message;
    bool took = false;
    while (relayed->take(message)) {
      took = true;
      take(connector,
           std::span(message.bytes).first(std::min(message.length, RelayedConnection::kMostBytes)));
    }
    if (took && links_.contains(connector)) control_.wake(*relayed, RelayedConnection::kMore);
  }
}

Result<NcclHost::MemoryKey> OneSidedLinks::expose(NodeId node, NcclHost::OneSidedMemory memory) {
  using Use = NcclHost::OneSidedUse;
  const bool window = memory.use == Use::kWindow;
  const bool told = memory.bytes != 0;
  if (!told) memory.bytes = kUntoldBytes;
  auto& all = registered_[{memory.communicator, memory.emulated}];
  const auto known = std::ranges::find_if(all, [&](const Registered& one) {
    return window && one.memory.use == Use::kWindow && one.memory.window == memory.window;
  });
  if (known != all.end()) {
    const ExposedRegion region = known->region;
    all.push_back({memory, region, {}, false, true});
    return NcclHost::MemoryKey{region.va, region.rkey};
  }
  const bool kept = window ? settings_.exact && told : memory.use != Use::kLocal;
  // Signals take memory where they are used only.
  if (window && kept && memory.bytes > kMostWindowBytes - kept_bytes_) {
    return fail("payload = \"exact\" keeps the contents of all emulated ranks' windows, up to " +
                std::to_string(kMostWindowBytes) +
                " bytes together; payload = \"synthetic\" keeps none");
  }
  const ExposedRegion region = TRY(control_.add_region(
      node, memory.bytes, kMemoryAccess, kept ? RegionKind::kBacked : RegionKind::kDiscard));
  all.push_back({memory, region, {}, false, false});
  if (window && region.bytes != nullptr) kept_bytes_ += memory.bytes;
  if (window) ++windows_;
  if (window && kept) fill(all.back());
  return NcclHost::MemoryKey{region.va, region.rkey};
}

/// What a rank's window holds before anybody puts anything there: other bytes in each rank's.
void OneSidedLinks::fill(const Registered& registered) const {
  const std::span bytes(registered.region.bytes, registered.memory.bytes);
  kPlacePattern.fill(0, uint64_t{registered.memory.emulated} << 40, bytes);
}

void OneSidedLinks::tell(Mesh& mesh, const Registered& registered) {
  using Use = NcclHost::OneSidedUse;
  using Signals = SymmetricRange::Signals;
  const Use use = registered.memory.use;
  const Signals signals = use == Use::kSignals      ? Signals::kOfRanks
                          : use == Use::kGinSignals ? Signals::kNamed
                                                    : Signals::kNone;
  mesh.rank.add({registered.region.va, registered.memory.bytes, registered.region.bytes,
                 registered.real.address, registered.real.rkey, registered.memory.rank,
                 registered.memory.real, signals});
  control_.wake(mesh.rank, OneSidedRank::kMore);
}

void OneSidedLinks::exposed(const NcclHost::OneSidedMemory& memory,
                            const NcclHost::MemoryKey& real) {
  const Rank rank{memory.communicator, memory.emulated};
  const auto all = registered_.find(rank);
  if (all == registered_.end()) return;
  for (Registered& one : all->second) {
    if (one.memory.registration != memory.registration) continue;
    one.real = real;
    one.known = true;
    for (const auto& [connector, link] : links_of(rank)) {
      const bool sends = link->mesh != nullptr && link->made && connector.real_sends;
      if (sends && reaches(connector, one)) tell(*link->mesh, one);
    }
  }
}

void OneSidedLinks::add_to(OneSidedReport& report) const {
  const OneSidedTraffic& t = *traffic_;
  report.windows += windows_;
  report.puts += t.puts;
  report.put_bytes += t.put_bytes;
  report.signals += t.signals;
  report.answers += t.answers;
  report.answer_bytes += t.answer_bytes;
  report.unanswered += t.unanswered + t.chunks;
}

std::string OneSidedLinks::text() const {
  const OneSidedTraffic& t = *traffic_;
  std::string text = "one-sided: " + std::to_string(windows_) + " windows of emulated ranks; " +
                     std::to_string(t.puts) + " puts of " + std::to_string(t.put_bytes) +
                     " bytes and " + std::to_string(t.signals) + " signals from the real rank, " +
                     std::to_string(t.answers) + " puts of " + std::to_string(t.answer_bytes) +
                     " bytes to it";
  if (t.unanswered > 0) text += "; " + std::to_string(t.unanswered) + " had no place for an answer";
  if (t.chunks > 0) {
    text += "; " + std::to_string(t.chunks) +
            " puts of more than 32 MiB may be chunks of a collective, and were answered by signals "
            "without data";
  }
  if (t.failed > 0) text += "; " + std::to_string(t.failed) + " connections failed";
  return text;
}

}  // namespace understudy
