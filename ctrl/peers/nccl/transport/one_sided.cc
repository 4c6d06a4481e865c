#include "ctrl/peers/nccl/transport/one_sided.h"

#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/bytes.h"

namespace understudy {
namespace {

// segmentInfo (dev_runtime.cc): how many segments, whether host memory is among them, bytes.
constexpr uint32_t kSegmentsBytes = 16;
constexpr size_t kHostMemoryAt = 4, kTotalBytesAt = 8;
constexpr uint32_t kNicCountBytes = 4;
// A net handle: the listener's address, its magic.
constexpr uint32_t kListenerBytes = 128;
constexpr size_t kListenerMagicAt = 32;
// Of all-gathers over the ring (net_ib/gin.cc), beside handles.
constexpr uint32_t kMemoryAddressBytes = 8, kMemoryKeyBytes = 4, kBarrierBytes = 4;
/// NCCL_GIN_IB_ALLGATHER_TAG, which its credits carry.
constexpr uint32_t kRingTag = 0xa0;
constexpr const char* kOtherContexts =
    "that is the RMA proxy with several contexts, or GIN with a single one, which nothing tells "
    "apart "
    "in NCCL 2.29: emulated ranks take part with numRmaCtx = 1 (or NCCL_NUM_RMA_CTX) and without "
    "NCCL_GIN_NCONTEXTS";
constexpr const char* kHostMemory =
    "a window has host memory, whose parts GIN registers one by one: emulated ranks take part "
    "where windows are of a GPU's memory";
/// No GPU has more memory.
constexpr uint64_t kMostWindowBytes = uint64_t{1} << 40;

bool is_listener(std::span<const uint8_t> slice) {
  return slice.size() == kListenerBytes && nccl_u64(slice, kListenerMagicAt) == kNcclNetMagic;
}

}  // namespace

uint32_t OneSided::real() const {
  return static_cast<uint32_t>(std::ranges::find_if(members_, &NcclMember::real) -
                               members_.begin());
}

OneSided::Ring& OneSided::add_ring(OneSidedForm form) {
  Ring& ring = rings_.emplace_back();
  ring.gin = gin_ || form == OneSidedForm::kGinAtOnce;
  ring.at_once = form != OneSidedForm::kMeshes;
  // One of the RMA proxy stays alone.
  ring.further = form == OneSidedForm::kRings && (ring.gin || guessed_);
  if (ring.further) ring.spare = 2;
  ring.channel = static_cast<uint32_t>(rings_.size() - 1);
  if (form == OneSidedForm::kGinAtOnce) return ring;
  if (ring.gin) {
    ring.windows = windows_;
  } else if (!windows_.empty()) {
    ring.windows = {windows_.front()};
  }
  return ring;
}

OneSided::Gather OneSided::next(const BootstrapLayout& layout, uint32_t size) {
  using Form = OneSidedForm;
  const Form form = layout.one_sided;
  const Gather before = last_;
  last_ = Gather::kNone;
  if (form == Form::kNone) return last_;
  if (form == Form::kGinAtOnce) {
    if (size != kListenerBytes || reals() != 1 || rings_.size() == kMostNics) return last_;
    last_ = Gather::kHandles;
    add_ring(form);
    return last_;
  }
  if (form == Form::kMeshes && size == kSegmentsBytes) {
    last_ = Gather::kSegments;
  } else if (size == kNicCountBytes) {
    // The RMA proxy connects while the first window is registered, GIN at no such time
    // (dev_runtime.cc: symMemoryObtain, ncclDevrCommCreateInternal). Others' have this size, too:
    // GIN's is one if handles follow it. Where no all-gather begins a window, the first is taken for
    // the RMA proxy's until more is known.
    gin_ = (form == Form::kMeshes && before != Gather::kSegments) || rings_of(false) > 0;
    if (rings_of(gin_) == 0) last_ = Gather::kCount;
  } else if (size == kListenerBytes && (before == Gather::kCount || before == Gather::kHandles) &&
             reals() == 1 && rings_of(gin_) < std::min(count_, kMostNics)) {
    last_ = Gather::kHandles;
    if (form == Form::kRings && !gin_) {
      // GIN would have registered memory before the second NIC's.
      guessed_ = rings_.empty();
      rma_is_new_ = true;
    }
    if (!rings_.empty() && rings_.back().further) give_spare_back(rings_.back());
    add_ring(form);
  }
  return last_;
}

/// With rings of their own the RMA proxy registers one memory of its own, with one context; each
/// window for each NIC.
void OneSided::at_barrier() {
  if (last_ == Gather::kSegments) last_ = Gather::kNone;
  for (Ring& ring : rings_) {
    if (!rma_is_new_ || ring.gin || ring.registrations == own_registrations(ring) + 1) continue;
    return fail("rank " + std::to_string(real()) + " registers memory " +
                std::to_string(ring.registrations) + " times with its first window, not " +
                std::to_string(own_registrations(ring) + 1) + ": " + kOtherContexts);
  }
  guessed_ = rma_is_new_ = false;
}

/// `number`: of those at the same listeners, from 1 on.
NcclConnector OneSided::on_ring(const Ring& ring, uint32_t number, uint32_t emulated,
                                bool real_sends) const {
  return {communicator_,
          members_[emulated].world,
          members_[real()].world,
          ring.channel | (number > 1 ? number << 8 : 0),
          kOneSidedRing,
          real_sends,
          kRingTag};
}

NcclConnector OneSided::on_mesh(const Ring& ring, uint32_t context, uint32_t emulated,
                                bool real_sends) const {
  NcclConnector connector = on_ring(ring, 1, emulated, real_sends);
  connector.index = kOneSided;
  connector.channel |= context << 8;
  return connector;
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

bool OneSided::expect_behind(const NcclConnector& connector, const NcclConnector& before) {
  const auto expected = host_.expect_behind(connector, before);
  if (!expected) {
    fail("a connection for one-sided operations: " + expected.error().text);
    return false;
  }
  connectors_.insert(connector);
  return true;
}

void OneSided::connect(const NcclConnector& connector, const SocketAddress& to) {
  connectors_.insert(connector);
  connecting_.insert(connector);
  host_.connect(connector, to, kNcclNetMagic);
}

/// The rank after the real one is dialed for the ring, the others only where their mesh is made with
/// it: else their handles have the same form.
bool OneSided::listen(Ring& ring, uint32_t rank, SocketAddress& at) {
  const bool next = rank == after(real(), 1);
  const NcclConnector of_ring = on_ring(ring, 1, rank, true);
  const NcclConnector of_mesh = on_mesh(ring, 1, rank, true);
  if (!expect(next ? of_ring : of_mesh, at)) return false;
  if (!ring.at_once) return true;
  if (next) {
    if (!expect_behind(of_mesh, of_ring)) return false;
    connecting_.insert(of_mesh);
  }
  return !ring.further || expect_context(ring, 2, rank);
}

void OneSided::append_handle(uint32_t rank, std::vector<uint8_t>& to) {
  Ring& ring = rings_.back();
  const uint32_t listens = ring.at_once ? rank : after(real(), 1);
  auto [known, fresh] = ring.handles.try_emplace(listens);
  if (fresh && !listen(ring, listens, known->second)) return;
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
    const uint64_t bytes = nccl_u64(slice, kTotalBytesAt);
    if (bytes == 0 || bytes > kMostWindowBytes) {
      return fail(who + "a window of " + std::to_string(bytes) + " bytes, which no GPU has");
    }
    keep_window({++last_window_, bytes});
    for (Ring& ring : rings_) ring.windows = {windows_.front()};
    host_memory_ = host_memory_ || slice[kHostMemoryAt] != 0;
    if (host_memory_ && rings_of(true) > 0) fail(who + kHostMemory);
    return;
  }
  if (gather == Gather::kCount) {
    count_ = nccl_u32(slice, 0);
    // Which of the two this is may not be known; handles follow if it is either.
    if (gin_ || reals() == 1 || windows_.empty()) return;
    return fail(who + "emulated ranks take part where one rank of the communicator is real, here " +
                std::to_string(reals()) +
                " are: set NCCL_RMA_DISABLE=1 on the real nodes, or register no windows there");
  }
  const auto listener = is_listener(slice) ? nccl_address(slice, 0) : std::nullopt;
  if (!listener) return fail(who + "no address can be read from its net_ib handle");
  Ring& ring = rings_.back();
  if (ring.gin && host_memory_) return fail(who + kHostMemory);
  if (ring.gin && guessed_) return fail(who + kOtherContexts);
  if (ring.at_once) {
    ring.contexts = ring.together = 1;
    ring.mesh = *listener;
  }
  connect(on_ring(ring, 1, before(real(), 1), false), *listener);
}

void OneSided::look_at_other(const BootstrapLayout& layout, uint32_t rank,
                             std::span<const uint8_t> slice) {
  if (!is_listener(slice)) return;
  const std::string who = "rank " + std::to_string(rank) + " makes connections ";
  if (layout.one_sided != OneSidedForm::kNone) {
    const std::string why =
        reals() == 1 ? "one after another all-gathers than NCCL's"
                     : "where " + std::to_string(reals()) + " ranks of the communicator are real";
    const bool rings = layout.one_sided == OneSidedForm::kRings;
    return fail(
        who + (rings ? "for one-sided operations, " : "of GIN, for a device communicator, ") + why +
        ": emulated ranks take part where one is. On the real node, "
        "NCCL_SYM_GIN_KERNELS_ENABLE=0 keeps NCCL's own kernels from GIN, and "
        "NCCL_WIN_ENABLE=0 registers no windows");
  }
  fail(who +
       "for one-sided operations (GIN, or the RMA proxy, for a window or a device "
       "communicator), in which emulated ranks take part with NCCL 2.28 (GIN), 2.29.7 and from "
       "2.30.7 on, not with " +
       std::string(layout.releases) +
       ": set NCCL_WIN_ENABLE=0 on the real node, which registers no windows then");
}

bool OneSided::ready(const NcclConnector& connector) {
  if (connecting_.erase(connector) > 0) {
    for (Ring& ring : rings_) {
      if (ring.held && stands(ring)) enter_barrier(ring);
    }
  }
  if (!connectors_.contains(connector)) return false;
  take_further(connector);
  return true;
}

void OneSided::relayed(const NcclConnector& connector, std::span<const uint8_t> bytes) {
  const uint32_t number = connector.channel & 0xff, over = std::max(1U, connector.channel >> 8);
  if (number >= rings_.size()) return;
  Ring& ring = rings_[number];
  if (ring.held) {
    return fail("rank " + std::to_string(real()) +
                " sends over the ring of its one-sided connections what it cannot have yet");
  }
  if (ring.came == 0) {
    if (!begins(ring, over, bytes)) return;
  } else {
    // The real rank hands on what came from behind: our own.
    const uint32_t of = before(real(), ring.came);
    if (over != ring.over || !std::ranges::equal(slice(ring, of), bytes)) {
      return fail("rank " + std::to_string(real()) + " hands on " + std::to_string(bytes.size()) +
                  " bytes as rank " + std::to_string(of) +
                  "'s over the ring of its one-sided connections, that rank sent others");
    }
  }
  if (++ring.came < size() - 1) return;
  ring.came = 0;
  ended(ring);
}

bool OneSided::refuse(const Ring& ring) {
  fail("rank " + std::to_string(real()) + " sends " + std::to_string(ring.size) +
       " bytes over the ring of its one-sided connections, where " +
       (ring.gin || guessed_
            ? "GIN's CPU proxy has others: with GIN on the GPU itself (NCCL_GIN_TYPE=3) "
              "emulated ranks take no part; on the real node, NCCL_GIN_TYPE=2 has its CPU do it"
            : "NCCL's RMA proxy has others"));
  return false;
}

/// An all-gather, by the real rank's own slice.
bool OneSided::begins(Ring& ring, uint32_t over, std::span<const uint8_t> own) {
  ring.size = static_cast<uint32_t>(own.size());
  ring.over = over;
  const bool meshed = ring.made() && ring.barriers == size();
  const bool mesh_follows = !ring.at_once && (meshed || !ring.made());
  if (ring.size == kListenerBytes && !ring.keys_next && mesh_follows) {
    ring.kind = Kind::kHandles;
  } else if (ring.size == kMemoryKeyBytes && ring.keys_next) {
    ring.kind = Kind::kKeys;
  } else if (ring.size == kBarrierBytes && ring.made() && ring.barriers < size()) {
    ring.kind = Kind::kBarrier;
  } else if (ring.size == kBarrierBytes && meshed && ring.spare && !ring.further) {
    if (!begin_context(ring)) return false;
    ring.kind = Kind::kBarrier;
  } else if (ring.size == kMemoryAddressBytes && !ring.keys_next &&
             (meshed || (ring.gin && !ring.made()))) {
    ring.kind = Kind::kAddresses;
  } else {
    return refuse(ring);
  }
  // Barriers of a mesh go over its ring, all else over the first.
  const bool of_mesh = ring.kind == Kind::kBarrier && ring.further;
  if (over != (of_mesh ? ring.contexts : 1)) return refuse(ring);
  ring.slices.assign(size_t{size()} * ring.size, 0);
  std::ranges::copy(own, slice(ring, real()).begin());
  if (ring.kind == Kind::kBarrier) {
    ring.held = !stands(ring);
    if (!ring.held) enter_barrier(ring);
    return true;
  }
  if (!fill(ring)) return false;
  send(ring);
  return true;
}

/// Emulated ranks' slices.
bool OneSided::fill(Ring& ring) {
  if (ring.kind == Kind::kHandles) return fill_handles(ring);
  if (ring.kind == Kind::kAddresses) return fill_addresses(ring);
  for (uint32_t r = 0; r < size(); ++r) {
    if (r != real()) put_nccl_u32(slice(ring, r), 0, ring.keys[r]);
  }
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
  give_spare_back(ring);
  ++ring.contexts;
  ring.together = 1;
  ring.mesh = *listener;
  ring.barriers = 0;
  ring.registrations = 0;
  // Of those that there were before GIN, some may be no more.
  if (ring.gin) ring.windows.clear();
  for (uint32_t r = 0; r < size(); ++r) {
    if (r == real()) continue;
    SocketAddress at;
    if (!expect(on_mesh(ring, ring.contexts, r, true), at)) return false;
    put_nccl_address(slice(ring, r), 0, at);
    put_nccl_u64(slice(ring, r), kListenerMagicAt, kNcclNetMagic);
  }
  return !ring.gin || expect_further(ring);
}

/// The ring brings the nearest rank's slice first.
void OneSided::send(const Ring& ring) {
  const NcclConnector out = on_ring(ring, ring.over, before(real(), 1), false);
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
           ring.registrations < own_registrations(ring);
  });
}

void OneSided::waiting(std::vector<std::string>& lines) const {
  for (const Ring& ring : rings_) {
    if (ring.made() && ring.barriers == size() && ring.came == 0 && !ring.keys_next) continue;
    const std::string what = std::string(ring.gin ? "GIN's" : "one-sided") +
                             " connections with rank " + std::to_string(real()) + ": ";
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
