#include "tests/rigs/nccl_rank/rma_proxy.h"

#include <utility>

#include "tests/rigs/nccl_rank/gin_proxy.h"
#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::u64_at;

constexpr int kWindowTag = 0xbeef;
constexpr uint64_t kSignalBytes = 8;

Bytes of32(uint32_t value) {
  Bytes out(4);
  put32(out, 0, value);
  return out;
}

}  // namespace

Task<RmaProxy::Window*> RmaProxy::register_window(uint64_t bytes) {
  if (rank_.world().release.minor >= 30) {
    Bytes segments(16);
    put32(segments, 0, 1);
    put64(segments, 8, bytes);
    const auto all = co_await rank_.gather(&comm_, segments, "segments of a window");
    for (const Bytes& one : all) require(one == segments, "segments of a window: others than ours");
  }
  const RmaMemory memory = memories_.emplace_back(adapter_.expose(bytes));
  // dev_runtime.cc, symMemoryObtain.
  if (gin_ != nullptr) co_await gin_->registers(memory);
  Window* window = nullptr;
  if (!disabled_) {
    if (!std::exchange(connected_, true)) co_await connect();
    window = co_await ring_.registered(memory);
  }
  co_await barrier(kWindowTag);
  co_return window;
}

// rma_proxy.cc, ncclRmaProxyConnectOnce and ncclRmaProxyCreateContext; one NIC, one context.
Task<> RmaProxy::connect() {
  const auto counts = co_await rank_.gather(&comm_, of32(1), "NICs for one-sided operations");
  for (const Bytes& one : counts) require(one == of32(1), "NICs for one-sided operations");
  const auto signals = (static_cast<uint64_t>(size()) + 1) * kSignalBytes;
  if (rank_.world().release.minor < 30) {
    co_await ring_.connect_at_once(&adapter_, {}, stops_before_);
    for (int c = 0; c < contexts_; ++c) co_await ring_.registered(adapter_.expose(signals));
  } else {
    require(contexts_ == 1, "several contexts of the RMA proxy");
    co_await ring_.connect();
    co_await ring_.connect_meshes({&adapter_}, stops_before_);
    co_await ring_.registered(adapter_.expose(signals));
    co_await ring_.registered(adapter_.expose(signals));
    co_await ring_.registered(adapter_.expose(signals - kSignalBytes));
  }
  expected_.resize(static_cast<size_t>(size()));
  sent_.resize(static_cast<size_t>(size()));
}

/// bootstrap.cc, bootstrapBarrier: a dissemination.
Task<> RmaProxy::barrier(int tag) {
  for (int mask = 1; mask < size(); mask <<= 1) {
    co_await rank_.say(&comm_, (own() + mask) % size(), tag, Bytes(4));
    co_await rank_.hear(&comm_, (own() + size() - mask) % size(), tag, 4, "barrier of a window");
  }
}

uint64_t RmaProxy::signal_of(int peer) {
  const RmaMemory& own = ring_.windows()[0].own;
  return u64_at(Bytes(own.bytes, own.bytes + own.size), static_cast<size_t>(peer) * kSignalBytes);
}

void RmaProxy::send_signal(int peer) {
  const auto to = static_cast<size_t>(peer);
  Sent& sent = signals_.emplace_back(Sent{peer, sent_[to]++, ~uint64_t{0}});
  const Window& signals = ring_.windows()[0];
  adapter_.signal(peer, 1, &sent.original,
                  signals.addresses[to] + static_cast<uint64_t>(own()) * kSignalBytes,
                  signals.rkeys[to]);
}

/// All that was posted is done, and the signals found what those before them had left.
Task<> RmaProxy::settled(std::string what) {
  rank_.stand(what);
  co_await rank_.until(
      [this] { return adapter_.failed() || adapter_.done() == adapter_.posted(); });
  require(!adapter_.failed(), what + ": a queue pair failed");
  for (const Sent& sent : signals_) {
    require(sent.original == sent.number, what + ": signal " + std::to_string(sent.number) +
                                              " to " + rank_text(sent.peer) + " found " +
                                              std::to_string(sent.original));
  }
  signals_.clear();
}

Task<> RmaProxy::wait_signal(int peer) {
  const uint64_t wanted = ++expected_[static_cast<size_t>(peer)];
  rank_.stand("signal " + std::to_string(wanted) + " of " + rank_text(peer));
  co_await rank_.until(
      [this, peer, wanted] { return adapter_.failed() || signal_of(peer) >= wanted; });
  require(!adapter_.failed(), "a queue pair failed before a signal");
}

Task<> RmaProxy::put_signal(Window* window, uint64_t offset, uint64_t bytes, int peer) {
  const auto to = static_cast<size_t>(peer);
  adapter_.put(peer, window->own.bytes + offset, bytes, window->addresses[to] + offset,
               window->rkeys[to]);
  send_signal(peer);
  co_await settled("a put to " + rank_text(peer));
}

Task<> RmaProxy::refused_signal(int peer, uint64_t behind, uint32_t key) {
  const Window& signals = ring_.windows()[0];
  const auto to = static_cast<size_t>(peer);
  uint64_t original = 0;
  adapter_.signal(peer, 1, &original,
                  signals.addresses[to] + static_cast<uint64_t>(size()) * kSignalBytes + behind,
                  signals.rkeys[to] ^ key);
  rank_.stand("a signal that is to be refused");
  co_await rank_.until(
      [this] { return adapter_.failed() || adapter_.done() == adapter_.posted(); });
  require(adapter_.failed(), "a signal " + std::to_string(behind) + " bytes behind the last of " +
                                 rank_text(peer) + ", with a key changed by " +
                                 std::to_string(key) + ", was taken");
}

Task<> RmaProxy::get(Window* window, uint64_t offset, uint64_t bytes, int peer, uint8_t* to) {
  const auto from = static_cast<size_t>(peer);
  adapter_.get(peer, to, bytes, window->addresses[from] + offset, window->rkeys[from]);
  co_await settled("a get from " + rank_text(peer));
}

// ce_coll.cc, ncclRailSync: who comes says so to all, and waits for all.
Task<> RmaProxy::enter() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != own()) send_signal(peer);
  }
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != own()) co_await wait_signal(peer);
  }
}

Task<> RmaProxy::finish() {
  for (int i = 1; i < size(); ++i) co_await wait_signal((own() + size() - i) % size());
  co_await settled("puts of a collective");
}

// ncclHierCeAllGather and ncclHierCeAlltoAll, a rank on each node.
Task<> RmaProxy::all_gather(Window* window, uint64_t offset, uint64_t bytes) {
  co_await enter();
  const uint64_t slice = offset + static_cast<uint64_t>(own()) * bytes;
  for (int i = 1; i < size(); ++i) {
    const int peer = (own() + i) % size();
    const auto to = static_cast<size_t>(peer);
    adapter_.put(peer, window->own.bytes + slice, bytes, window->addresses[to] + slice,
                 window->rkeys[to]);
    send_signal(peer);
  }
  co_await finish();
}

Task<> RmaProxy::all_to_all(Window* from, Window* to, uint64_t offset, uint64_t bytes) {
  co_await enter();
  const uint64_t slice = offset + static_cast<uint64_t>(own()) * bytes;
  for (int i = 1; i < size(); ++i) {
    const int peer = (own() + i) % size();
    const auto number = static_cast<size_t>(peer);
    adapter_.put(peer, from->own.bytes + offset + number * bytes, bytes,
                 to->addresses[number] + slice, to->rkeys[number]);
    send_signal(peer);
  }
  co_await finish();
}

}  // namespace understudy::nccl_rank
