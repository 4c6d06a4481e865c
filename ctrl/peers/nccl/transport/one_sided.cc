#include "ctrl/peers/nccl/transport/one_sided.h"

#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/bytes.h"

namespace understudy {
namespace {

// segmentInfo (dev_runtime.cc): how many segments, whether host memory is among them, bytes.
constexpr uint32_t kSegmentsBytes = 16;
constexpr size_t kTotalBytesAt = 8;
constexpr uint32_t kNicCountBytes = 4;
// A net handle: the listener's address, its magic.
constexpr uint32_t kListenerBytes = 128;
constexpr size_t kListenerMagicAt = 32;
// Of all-gathers over the ring (net_ib/gin.cc), beside handles.
constexpr uint32_t kMemoryAddressBytes = 8, kMemoryKeyBytes = 4, kBarrierBytes = 4;
/// NCCL_GIN_IB_ALLGATHER_TAG, which its credits carry.
constexpr uint32_t kRingTag = 0xa0;
/// A context's own memory (rma_proxy.cc): signals, those that the CPU reads, a buffer for flushes.
constexpr uint32_t kOwnRegistrations = 3, kFlushBuffer = 2;
constexpr uint64_t kSignalBytes = 8;

bool is_listener(std::span<const uint8_t> slice) {
  return slice.size() == kListenerBytes && nccl_u64(slice, kListenerMagicAt) == kNcclNetMagic;
}

}  // namespace

uint32_t OneSided::real() const {
  return static_cast<uint32_t>(std::ranges::find_if(members_, &NcclMember::real) -
                               members_.begin());
}

OneSided::Gather OneSided::next(const BootstrapLayout& layout, uint32_t size) {
  const Gather before = last_;
  last_ = Gather::kNone;
  if (!layout.one_sided) return last_;
  if (size == kSegmentsBytes) {
    last_ = Gather::kSegments;
  } else if (size == kNicCountBytes && before == Gather::kSegments && rings_.empty()) {
    last_ = Gather::kCount;
  } else if (size == kListenerBytes && (before == Gather::kCount || before == Gather::kHandles) &&
             (rings_.empty() || rings_.size() < count_)) {
    last_ = Gather::kHandles;
    Ring& ring = rings_.emplace_back();
    ring.channel = static_cast<uint32_t>(rings_.size() - 1);
  }
  return last_;
}

NcclConnector OneSided::connector(const Ring& ring, uint32_t emulated, uint8_t index,
                                  bool real_sends) const {
  const uint32_t channel = index == kOneSided ? ring.contexts << 8 | ring.channel : ring.channel;
  return {
      communicator_, members_[emulated].world, members_[real()].world, channel, index, real_sends,
      kRingTag};
}

bool OneSided::expect(const NcclConnector& connector, SocketAddress& at) {
  const auto listener = host_.expect(connector);
  if (!listener) {
    fail("a connection for one-sided operations: " + listener.error().text);
    return false;
  }
  connectors_.insert(connector);
  connecting_.insert(connector);
  at = *listener;
  return true;
}

void OneSided::connect(const NcclConnector& connector, const SocketAddress& to) {
  connectors_.insert(connector);
  connecting_.insert(connector);
  host_.connect(connector, to, kNcclNetMagic);
}

/// Only the rank after the real one is ever dialed there; the others' have the same form.
void OneSided::append_handle(uint32_t rank, std::vector<uint8_t>& to) {
  Ring& ring = rings_.back();
  const uint32_t listens = after(real(), 1);
  auto [known, fresh] = ring.handles.try_emplace(listens);
  if (fresh && !expect(connector(ring, listens, kOneSidedRing, true), known->second)) return;
  const size_t at = to.size();
  to.resize(at + kListenerBytes);
  const std::span<uint8_t> handle(to.data() + at, kListenerBytes);
  SocketAddress address = known->second;
  // Of the same family as its rank's own would be; nobody calls there.
  if (rank != listens) address.port = 1;
  put_nccl_address(handle, 0, address);
  put_nccl_u64(handle, kListenerMagicAt, kNcclNetMagic);
}

void OneSided::came(Gather gather, uint32_t rank, std::span<const uint8_t> slice) {
  const std::string who = "rank " + std::to_string(rank) + "'s one-sided connections: ";
  if (gather == Gather::kSegments) {
    window_bytes_ = nccl_u64(slice, kTotalBytesAt);
    return;
  }
  if (gather == Gather::kCount) {
    count_ = nccl_u32(slice, 0);
    const auto reals = std::ranges::count_if(members_, &NcclMember::real);
    if (reals == 1) return;
    return fail(who + "emulated ranks take part where one rank of the communicator is real, here " +
                std::to_string(reals) +
                " are: set NCCL_RMA_DISABLE=1 on the real nodes, or register no windows there");
  }
  const auto listener = is_listener(slice) ? nccl_address(slice, 0) : std::nullopt;
  if (!listener) return fail(who + "no address can be read from its net_ib handle");
  Ring& ring = rings_.back();
  connect(connector(ring, before(real(), 1), kOneSidedRing, false), *listener);
}

void OneSided::look_at_other(const BootstrapLayout& layout, uint32_t rank,
                             std::span<const uint8_t> slice) {
  if (!is_listener(slice)) return;
  const std::string who = "rank " + std::to_string(rank) + " makes connections ";
  if (layout.one_sided) {
    return fail(who +
                "of GIN, for a device communicator: emulated ranks take part in those of the RMA "
                "proxy only. On the real node, NCCL_SYM_GIN_KERNELS_ENABLE=0 keeps NCCL's own "
                "kernels from GIN, and NCCL_WIN_ENABLE=0 registers no windows");
  }
  fail(who +
       "for one-sided operations (GIN, or the RMA proxy, for a window or a device "
       "communicator), in which emulated ranks take part from NCCL 2.30.7 on, not with " +
       std::string(layout.releases) +
       ": set NCCL_WIN_ENABLE=0 on the real node, which registers no windows then");
}

bool OneSided::ready(const NcclConnector& connector) {
  connecting_.erase(connector);
  return connectors_.contains(connector);
}

void OneSided::relayed(const NcclConnector& connector, std::span<const uint8_t> bytes) {
  if (connector.channel >= rings_.size()) return;
  Ring& ring = rings_[connector.channel];
  if (ring.came == 0) {
    if (!begins(ring, bytes)) return;
  } else {
    // The real rank hands on what came from behind: our own.
    const uint32_t of = before(real(), ring.came);
    if (!std::ranges::equal(slice(ring, of), bytes)) {
      return fail("rank " + std::to_string(real()) + " hands on " + std::to_string(bytes.size()) +
                  " bytes as rank " + std::to_string(of) +
                  "'s over the ring of its one-sided connections, that rank sent others");
    }
  }
  if (++ring.came < size() - 1) return;
  ring.came = 0;
  ended(ring);
}

/// An all-gather, by the real rank's own slice.
bool OneSided::begins(Ring& ring, std::span<const uint8_t> own) {
  ring.size = static_cast<uint32_t>(own.size());
  const bool in_mesh = ring.barriers > 0 || ring.contexts > 0;
  if (ring.size == kListenerBytes && !ring.keys_next) {
    ring.kind = Kind::kHandles;
  } else if (ring.size == kMemoryKeyBytes && ring.keys_next) {
    ring.kind = Kind::kKeys;
  } else if (ring.size == kBarrierBytes && in_mesh && ring.barriers < size()) {
    ring.kind = Kind::kBarrier;
  } else if (ring.size == kMemoryAddressBytes && in_mesh && ring.barriers == size()) {
    ring.kind = Kind::kAddresses;
  } else {
    fail("rank " + std::to_string(real()) + " sends " + std::to_string(ring.size) +
         " bytes over the ring of its one-sided connections, where NCCL's RMA proxy has others");
    return false;
  }
  ring.slices.assign(size_t{size()} * ring.size, 0);
  std::ranges::copy(own, slice(ring, real()).begin());
  if (!fill(ring)) return false;
  send(ring);
  return true;
}

/// Emulated ranks' slices. A barrier's say nothing.
bool OneSided::fill(Ring& ring) {
  switch (ring.kind) {
    case Kind::kHandles:
      return fill_handles(ring);
    case Kind::kAddresses:
      return fill_addresses(ring);
    case Kind::kKeys:
      for (uint32_t r = 0; r < size(); ++r) {
        if (r != real()) put_nccl_u32(slice(ring, r), 0, ring.keys[r]);
      }
      return true;
    case Kind::kBarrier:
      break;
  }
  // Who has come here has taken the connection before it: the next one may call.
  ++ring.barriers;
  connect_next(ring);
  return true;
}

bool OneSided::fill_handles(Ring& ring) {
  const auto own = slice(ring, real());
  const auto listener = is_listener(own) ? nccl_address(own, 0) : std::nullopt;
  if (!listener) {
    fail("rank " + std::to_string(real()) + "'s one-sided connections: no address can be read " +
         "from its net_ib handle");
    return false;
  }
  ++ring.contexts;
  ring.mesh = *listener;
  ring.barriers = 0;
  ring.registrations = 0;
  for (uint32_t r = 0; r < size(); ++r) {
    if (r == real()) continue;
    SocketAddress at;
    if (!expect(connector(ring, r, kOneSided, true), at)) return false;
    put_nccl_address(slice(ring, r), 0, at);
    put_nccl_u64(slice(ring, r), kListenerMagicAt, kNcclNetMagic);
  }
  return true;
}

/// The real rank takes connections in the order of their distance behind it.
void OneSided::connect_next(Ring& ring) {
  if (ring.barriers >= size()) return;
  connect(connector(ring, before(real(), ring.barriers), kOneSided, false), ring.mesh);
}

bool OneSided::fill_addresses(Ring& ring) {
  ring.real_address = nccl_u64(slice(ring, real()), 0);
  ring.keys.assign(size(), 0);
  NcclHost::OneSidedMemory& memory = ring.memory;
  memory.communicator = communicator_;
  memory.real = real();
  memory.registration = registrations_++;
  memory.window = ring.registrations >= kOwnRegistrations;
  memory.bytes = memory.window
                     ? window_bytes_
                     : (size() + (ring.registrations == kFlushBuffer ? 0 : 1)) * kSignalBytes;
  ++ring.registrations;
  for (uint32_t r = 0; r < size(); ++r) {
    if (r == real()) continue;
    memory.emulated = members_[r].world;
    memory.rank = r;
    const auto key = host_.expose(memory);
    if (!key) {
      fail("a window of " + std::to_string(memory.bytes) + " bytes: " + key.error().text);
      return false;
    }
    put_nccl_u64(slice(ring, r), 0, key->address);
    ring.keys[r] = key->rkey;
  }
  ring.keys_next = true;
  return true;
}

/// The ring brings the nearest rank's slice first.
void OneSided::send(const Ring& ring) {
  const NcclConnector out = connector(ring, before(real(), 1), kOneSidedRing, false);
  for (uint32_t step = 1; step < size(); ++step) {
    const size_t at = size_t{before(real(), step)} * ring.size;
    host_.relay(out, std::span(ring.slices).subspan(at, ring.size));
  }
}

void OneSided::ended(Ring& ring) {
  if (ring.kind != Kind::kKeys) return;
  ring.keys_next = false;
  const NcclHost::MemoryKey key{ring.real_address, nccl_u32(slice(ring, real()), 0)};
  for (uint32_t r = 0; r < size(); ++r) {
    if (r == real()) continue;
    ring.memory.emulated = members_[r].world;
    ring.memory.rank = r;
    host_.exposed(ring.memory, key);
  }
}

bool OneSided::under_way() const {
  return !connecting_.empty() || std::ranges::any_of(rings_, [&](const Ring& ring) {
    return ring.came > 0 || ring.keys_next || !ring.made() || ring.barriers < size() ||
           ring.registrations < kOwnRegistrations;
  });
}

void OneSided::waiting(std::vector<std::string>& lines) const {
  for (const Ring& ring : rings_) {
    if (ring.made() && ring.barriers == size() && ring.came == 0 && !ring.keys_next) continue;
    const std::string what = "one-sided connections with rank " + std::to_string(real()) + ": ";
    if (!ring.made()) {
      lines.push_back(what + "their ring is being made");
    } else if (ring.barriers < size()) {
      lines.push_back(what + std::to_string(ring.barriers) + " of " + std::to_string(size()) +
                      " barriers of their mesh have begun");
    } else {
      lines.push_back(what + "memory is being registered");
    }
  }
}

void OneSided::disconnect() {
  for (const NcclConnector& connector : connectors_) host_.disconnect(connector);
  connectors_.clear();
  connecting_.clear();
  rings_.clear();
}

}  // namespace understudy
