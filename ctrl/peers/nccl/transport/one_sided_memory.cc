// Memory that ranks register for one-sided operations: what for, how much, addresses and keys.
#include <algorithm>

#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "ctrl/peers/nccl/transport/one_sided.h"

namespace understudy {
namespace {

/// A context's own memory (rma_proxy.cc): signals, those that the CPU reads, a buffer for flushes.
/// Up to 2.29.7 signals only.
constexpr uint32_t kOwnRegistrations = 3, kFlushBuffer = 2;
constexpr uint64_t kSignalBytes = 8;
/// GIN tells nobody how many signals a context has. NCCL's own kernels want 64 barriers with as many
/// signals as ranks, twice (sym_kernels.cc).
constexpr uint64_t kGinSignals = 8192, kGinSignalsOfRank = 256;
/// NCCL_GIN_SIGNAL_POOL_SIZE of 2.28, of 2.29.
constexpr uint64_t kGinPool28 = 64 << 10, kGinPool29 = 512 << 10;
/// Values that go out with their descriptor, of each rank: NCCL_NET_MAX_REQUESTS times 8
/// (gin_host_proxy.cc).
constexpr uint64_t kGinInlines = 256;
/// Windows that are remembered until GIN connects.
constexpr size_t kMostWindows = 1024;

}  // namespace

/// Before windows; those of GIN from 2.30.7 on are told of in any case but the first.
uint32_t OneSided::own_registrations(const Ring& ring) const {
  if (!ring.at_once) return ring.gin ? 1 : kOwnRegistrations;
  if (ring.gin) return 1 + ring.together;
  // Context i is one of NIC i modulo their number (rma_proxy.cc); there is one.
  const auto first = std::ranges::find(rings_, false, &Ring::gin);
  return first != rings_.end() && first->channel == ring.channel ? 1 : 0;
}

void OneSided::keep_window(const Window& window) {
  windows_.push_front(window);
  if (windows_.size() > kMostWindows) windows_.pop_back();
}

/// Which one it is where nothing is told of windows: each is registered for all rings, one after the
/// other.
OneSided::Window OneSided::untold_window(Ring& ring) {
  if (!ring.windows.empty()) {
    const Window window = ring.windows.front();
    ring.windows.pop_front();
    return window;
  }
  keep_window({++last_window_, 0});
  for (Ring& other : rings_) {
    if (&other != &ring && other.windows.size() < kMostWindows) {
      other.windows.push_back(windows_.front());
    }
  }
  return windows_.front();
}

void OneSided::what_is_registered_at_once(Ring& ring) {
  using Use = NcclHost::OneSidedUse;
  NcclHost::OneSidedMemory& memory = ring.memory;
  const bool first = ring.registrations == 0;
  if (ring.registrations >= own_registrations(ring)) {
    memory.use = Use::kWindow;
    memory.bytes = 0;
    memory.window = untold_window(ring).number;
  } else if (!ring.gin) {
    memory.use = Use::kSignals;
    memory.bytes = (size() + 1) * kSignalBytes;
  } else {
    const uint64_t signals = ring.together * (ring.further ? kGinPool29 : kGinPool28);
    memory.use = first ? Use::kGinSignals : Use::kLocal;
    memory.bytes = (first ? signals : kGinInlines * size()) * kSignalBytes;
  }
}

/// What all ranks register next; false: nothing that NCCL would.
bool OneSided::what_is_registered(Ring& ring) {
  using Use = NcclHost::OneSidedUse;
  NcclHost::OneSidedMemory& memory = ring.memory;
  if (ring.at_once) {
    what_is_registered_at_once(ring);
  } else if (!ring.gin && ring.registrations < kOwnRegistrations) {
    memory.use = Use::kSignals;
    memory.bytes = (size() + (ring.registrations == kFlushBuffer ? 0 : 1)) * kSignalBytes;
  } else if (!ring.windows.empty()) {
    memory.use = Use::kWindow;
    memory.bytes = ring.windows.front().bytes;
    memory.window = ring.windows.front().number;
    ring.windows.pop_front();
  } else if (ring.gin && ring.made() && ring.registrations == 0) {
    memory.use = Use::kGinSignals;
    memory.bytes = ring.together * std::max(kGinSignals, kGinSignalsOfRank * size()) * kSignalBytes;
  } else if (ring.gin && ring.made()) {
    memory.use = Use::kLocal;
    memory.bytes = kGinInlines * size() * kSignalBytes;
  } else {
    return false;
  }
  return true;
}

bool OneSided::fill_addresses(Ring& ring) {
  // The RMA proxy connects for all NICs before it registers anything, GIN for one after the other.
  if (guessed_ && rings_of(false) < std::min(count_, kMostNics)) turn_to_gin();
  if (!what_is_registered(ring)) return refuse(ring);
  // Contexts that belong together are all there when their memory is registered.
  give_spare_back(ring);
  ring.real_address = nccl_u64(slice(ring, real()), 0);
  ring.keys.assign(size(), 0);
  NcclHost::OneSidedMemory& memory = ring.memory;
  memory.communicator = communicator_;
  memory.real = real();
  memory.ring = ring.channel;
  memory.registration = registrations_++;
  if (ring.made()) ++ring.registrations;
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

}  // namespace understudy
