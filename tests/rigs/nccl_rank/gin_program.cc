#include "tests/rigs/nccl_rank/gin_program.h"

#include <numeric>

#include "tests/rigs/nccl_rank/rma_program.h"

namespace understudy::nccl_rank {
namespace {

constexpr uint64_t kGinWindow = 64 << 10, kGinBuffer = 8 << 10, kGinFrom = 32 << 10,
                   kGinPut = 40000;
/// Signals of a context: those that the program names, then its barrier's.
constexpr uint64_t kExchange = 0, kAdded = 2, kBarrier = 4;

void require_bytes(const uint8_t* found, const Bytes& right, const std::string& what) {
  for (size_t i = 0; i < right.size(); ++i) {
    require(found[i] == right[i], what + ": byte " + std::to_string(i) + " is " +
                                      std::to_string(found[i]) + ", not " +
                                      std::to_string(right[i]));
  }
}

}  // namespace

Task<> gin_program(RealRank& rank, RmaProxy& proxy, GinProxy& gin, bool exact, bool window_first) {
  const int n = rank.world().size(), own = rank.rank();
  if (window_first) co_await proxy.register_window(kGinWindow);
  co_await gin.create_device_communicator(kBarrier + static_cast<uint64_t>(n), kGinBuffer);
  if (!window_first) co_await proxy.register_window(kGinWindow);
  const RmaMemory memory = window_first ? proxy.memories().front() : proxy.memories().back();
  require(memory.size == kGinWindow, "another window");
  // READs: from 2.30 on.
  const bool gets = rank.world().release.minor >= 30;
  std::iota(memory.bytes + kGinFrom, memory.bytes + kGinWindow, uint8_t{11});
  const uint64_t mine = static_cast<uint64_t>(own) * kGinBlockBytes;
  for (int context = 0; context < gin.contexts(); ++context) {
    // ncclGinBarrierSession: a signal of each rank.
    for (int i = 1; i < n; ++i) {
      gin.signal(context, kBarrier + static_cast<uint64_t>(own), 1, (own + i) % n);
    }
    for (int r = 0; r < n; ++r) {
      if (r != own) co_await gin.wait_signal(context, kBarrier + static_cast<uint64_t>(r), 1);
    }
    co_await gin.settled("a barrier of GIN");
    // A block to each peer, with the same signal for all.
    for (int i = 1; i < n; ++i) {
      const int peer = (own + i) % n;
      gin.put(context, memory, mine, kGinFrom + static_cast<uint64_t>(peer), kGinBlockBytes, peer);
      gin.signal(context, kExchange, 1, peer);
    }
    co_await gin.wait_signal(context, kExchange, static_cast<uint64_t>(n - 1));
    co_await gin.settled("an exchange by GIN");
    for (int r = 0; r < n; ++r) {
      if (r == own) continue;
      const uint64_t block = static_cast<uint64_t>(r) * kGinBlockBytes;
      Bytes right(kGinBlockBytes);
      for (uint64_t i = 0; exact && i < kGinBlockBytes; ++i) {
        right[i] = first_content(r, block + i);
      }
      require_bytes(memory.bytes + block, right, "what " + rank_text(r) + " put");
      if (!gets) continue;
      Bytes there(kGinBlockBytes, 1);
      gin.get(context, memory, mine, kGinBlockBytes, r, there.data());
      co_await gin.settled("a get by GIN");
      const uint8_t* const sent = memory.bytes + kGinFrom + r;
      require(there == (exact ? Bytes(sent, sent + kGinBlockBytes) : Bytes(kGinBlockBytes)),
              "a get by GIN of what " + rank_text(r) + " was put");
    }
    // A signal with a value comes back with it, and what was put in its place.
    const int peer = (own + 1) % n;
    const uint64_t at = kGinPut + static_cast<uint64_t>(context);
    const Bytes put(memory.bytes + at, memory.bytes + at + kGinPutBytes);
    gin.put(context, memory, at, at, kGinPutBytes, peer);
    gin.signal(context, kAdded, 5, peer);
    co_await gin.wait_signal(context, kAdded, 5);
    co_await gin.settled("a put by GIN");
    require(Bytes(memory.bytes + at, memory.bytes + at + kGinPutBytes) ==
                (exact ? put : Bytes(kGinPutBytes)),
            "an answer to a put by GIN");
  }
}

}  // namespace understudy::nccl_rank
