// The reference rank's ncclCommSplit and ncclCommShrink.
#include <algorithm>

#include "tests/rigs/nccl_rank/real_rank.h"
#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::i32_at;

constexpr int kSplitTag = 1 << 29, kOldSplitTag = -2;

}  // namespace

// docs/nccl 1.8; source: init.cc, commGetSplitInfo; bootstrap.cc, bootstrapSplit.

Task<Communicator*> RealRank::split(Communicator* parent, int color, int key, IbAdapter* adapter) {
  const int n = parent->size(), minor = world_.release.minor;
  std::vector<std::pair<int, int>> wishes(static_cast<size_t>(n));
  if (minor >= 23) {
    Bytes own(8);
    put32(own, 0, static_cast<uint32_t>(key));
    put32(own, 4, static_cast<uint32_t>(color));
    const auto all = co_await gather(parent, own, "key and color");
    for (size_t i = 0; i < all.size(); ++i) wishes[i] = {i32_at(all[i], 4), i32_at(all[i], 0)};
  } else {
    Bytes own(4);
    put32(own, 0, static_cast<uint32_t>(color));
    const auto colors = co_await gather(parent, own, "colors");
    put32(own, 0, static_cast<uint32_t>(key));
    const auto keys = co_await gather(parent, own, "keys");
    for (size_t i = 0; i < keys.size(); ++i) wishes[i] = {i32_at(colors[i], 0), i32_at(keys[i], 0)};
  }
  const int number = ++parent->splits;
  if (color < 0) co_return nullptr;
  std::vector<int> order;  // parent's ranks
  for (int r = 0; r < n; ++r) {
    if (wishes[static_cast<size_t>(r)].first == color) order.push_back(r);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].second < wishes[static_cast<size_t>(b)].second;
  });
  // All that matters of it is that all ranks of the child draw the same, and no others.
  co_return co_await child(parent, order,
                           parent->magic * 31 + static_cast<uint64_t>(number) * 1000003 +
                               static_cast<uint64_t>(color) + 1,
                           adapter);
}

// Source: init.cc of 2.27, ncclCommShrink and getParentRanks: no exchange, and shrinks are not
// counted.
Task<Communicator*> RealRank::shrink(Communicator* parent, std::vector<int> excluded,
                                     IbAdapter* adapter) {
  std::vector<int> order;
  for (int r = 0; r < parent->size(); ++r) {
    if (std::find(excluded.begin(), excluded.end(), r) == excluded.end()) order.push_back(r);
  }
  return child(parent, std::move(order), parent->magic * 31 + 7, adapter);
}

// Source: bootstrap.cc, bootstrapSplit.
Task<Communicator*> RealRank::child(Communicator* parent, std::vector<int> order, uint64_t magic,
                                    IbAdapter* adapter) {
  auto owned = std::make_unique<Communicator>();
  Communicator* comm = owned.get();
  comms_.push_back(std::move(owned));
  comm->magic = magic;
  comm->adapter = adapter != nullptr ? adapter : parent->adapter;
  for (int r : order) comm->members.of.push_back(parent->members.of[static_cast<size_t>(r)]);
  comm->members.own =
      static_cast<int>(std::find(order.begin(), order.end(), parent->rank()) - order.begin());
  if (comm->size() == 1) co_return comm;
  comm->ring = listen();
  const auto at = [&](int step) {
    return order[static_cast<size_t>((comm->rank() + step + comm->size()) % comm->size())];
  };
  const int tag = world_.release.minor >= 23 ? kSplitTag : kOldSplitTag;
  const auto bytes = static_cast<size_t>(world_.layout().ring_address_bytes);
  Bytes own(bytes);
  put_address(own, 0, comm->ring->address);
  co_await say(parent, at(-1), tag, own);
  const Bytes next = co_await hear(parent, at(1), tag, bytes, "the child's ring");
  require_zero(next, 28, "the child's ring");
  co_await bootstrap(comm, read_address(next, 0, "the child's ring"));
  co_return comm;
}

}  // namespace understudy::nccl_rank
