#include "tests/rigs/nccl_rank/rma_program.h"

#include <algorithm>
#include <numeric>

#include "dataplane/rc/memory.h"

namespace understudy::nccl_rank {
namespace {

/// What is there before anybody puts anything.
constexpr uint8_t kBefore = 0x77;
constexpr uint64_t kWindow = 64 << 10, kOffset = 4096, kBlocks = 8192;

/// A window's slice of the reference rank, which is not as any emulated rank's.
void fill_own(RmaProxy::Window& window, uint64_t from, uint64_t bytes) {
  std::iota(window.own.bytes + from, window.own.bytes + from + bytes, uint8_t{11});
}

}  // namespace

uint8_t first_content(int rank, uint64_t place) {
  return PlacePattern::at((static_cast<uint64_t>(rank) << 40) + place);
}

Task<> rma_program(RealRank& rank, RmaProxy& proxy, bool exact) {
  const int n = rank.world().size(), own = rank.rank();
  RmaProxy::Window* const window = co_await proxy.register_window(kWindow);
  RmaProxy::Window* const second = co_await proxy.register_window(2 * kWindow);
  // READs: from 2.30 on.
  const bool gets = rank.world().release.minor >= 30;
  std::fill_n(window->own.bytes, kWindow, kBefore);
  std::fill_n(second->own.bytes, 2 * kWindow, kBefore);
  const uint64_t mine = kOffset + static_cast<uint64_t>(own) * kRmaSliceBytes;
  fill_own(*window, mine, kRmaSliceBytes);
  // Twice: the second one finds what the first one brought.
  for (int round = 0; round < 2; ++round) {
    co_await proxy.all_gather(window, kOffset, kRmaSliceBytes);
    for (int r = 0; r < n; ++r) {
      const uint64_t slice = kOffset + static_cast<uint64_t>(r) * kRmaSliceBytes;
      for (uint64_t i = 0; i < kRmaSliceBytes; ++i) {
        const uint8_t right = r == own ? static_cast<uint8_t>(11 + i)
                              : exact  ? first_content(r, slice + i)
                                       : uint8_t{0};
        require(window->own.bytes[slice + i] == right,
                "all-gather: byte " + std::to_string(i) + " of " + rank_text(r));
      }
    }
  }
  // An all-to-all brings each peer another block, and from each its own.
  co_await proxy.all_to_all(window, second, kBlocks, kRmaBlockBytes);
  for (int r = 0; r < n; ++r) {
    const uint64_t block = kBlocks + static_cast<uint64_t>(r) * kRmaBlockBytes;
    if (r == own) continue;
    for (uint64_t i = 0; i < kRmaBlockBytes; ++i) {
      require(second->own.bytes[block + i] == (exact ? first_content(r, block + i) : 0),
              "all-to-all: byte " + std::to_string(i) + " of " + rank_text(r));
    }
    if (!gets) continue;
    Bytes there(kRmaBlockBytes, 1);
    co_await proxy.get(second, kBlocks + static_cast<uint64_t>(own) * kRmaBlockBytes,
                       kRmaBlockBytes, r, there.data());
    const uint8_t* const sent = window->own.bytes + block;
    require(there == (exact ? Bytes(sent, sent + kRmaBlockBytes) : Bytes(kRmaBlockBytes)),
            "a get of what an all-to-all brought " + rank_text(r));
  }
  // A put with a signal is answered in the same place; what was put there can be read.
  const int peer = (own + 1) % n;
  fill_own(*second, 100, kRmaPutBytes);
  const Bytes put(second->own.bytes + 100, second->own.bytes + 100 + kRmaPutBytes);
  co_await proxy.put_signal(second, 100, kRmaPutBytes, peer);
  co_await proxy.wait_signal(peer);
  const Bytes answered(second->own.bytes + 100, second->own.bytes + 100 + kRmaPutBytes);
  require(answered == (exact ? put : Bytes(kRmaPutBytes)), "an answer to a put");
  if (!gets) co_return;
  Bytes got(kRmaPutBytes, 1);
  co_await proxy.get(second, 100, kRmaPutBytes, peer, got.data());
  require(got == (exact ? put : Bytes(kRmaPutBytes)), "a get of what was put");
  Bytes mine_there(kRmaSliceBytes, 1);
  co_await proxy.get(window, mine, kRmaSliceBytes, peer, mine_there.data());
  const Bytes here(window->own.bytes + mine, window->own.bytes + mine + kRmaSliceBytes);
  require(mine_there == (exact ? here : Bytes(kRmaSliceBytes)), "a get of what was gathered");
}

}  // namespace understudy::nccl_rank
