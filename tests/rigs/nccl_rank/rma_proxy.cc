#include "tests/rigs/nccl_rank/rma_proxy.h"

#include <utility>

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::kIbMagic;
using nccl_decode::u32_at;
using nccl_decode::u64_at;

constexpr int kHandleBytes = 128, kMagicAt = 32;
constexpr int kWindowTag = 0xbeef;
constexpr uint64_t kSignalBytes = 8;

Bytes of32(uint32_t value) {
  Bytes out(4);
  put32(out, 0, value);
  return out;
}
Bytes of64(uint64_t value) {
  Bytes out(8);
  put64(out, 0, value);
  return out;
}

}  // namespace

Bytes RmaProxy::handle_of(const SocketAddress& at) const {
  Bytes handle(kHandleBytes);
  put_address(handle, 0, at);
  put64(handle, kMagicAt, kIbMagic);
  return handle;
}

SocketAddress RmaProxy::listener_in(const Bytes& handle, int peer) const {
  const std::string who = "one-sided handle of " + rank_text(peer);
  const SocketAddress at = read_address(handle, 0, who);
  require(handle == handle_of(at), who + ": something else is set, or its magic is another");
  return at;
}

Task<RmaProxy::Window*> RmaProxy::register_window(uint64_t bytes) {
  Bytes segments(16);
  put32(segments, 0, 1);
  put64(segments, 8, bytes);
  const auto all = co_await rank_.gather(&comm_, segments, "segments of a window");
  for (const Bytes& one : all) require(one == segments, "segments of a window: others than ours");
  if (!std::exchange(connected_, true)) co_await connect();
  Window* const window = co_await registered(bytes);
  co_await barrier(kWindowTag);
  co_return window;
}

// rma_proxy.cc, ncclRmaProxyConnectOnce and ncclRmaProxyCreateContext; one NIC, one context.
Task<> RmaProxy::connect() {
  const auto counts = co_await rank_.gather(&comm_, of32(1), "NICs for one-sided operations");
  for (const Bytes& one : counts) require(one == of32(1), "NICs for one-sided operations");
  co_await connect_ring();
  co_await connect_mesh();
  const auto signals = (static_cast<uint64_t>(size()) + 1) * kSignalBytes;
  co_await registered(signals);
  co_await registered(signals);
  co_await registered(signals - kSignalBytes);
  expected_.resize(static_cast<size_t>(size()));
  sent_.resize(static_cast<size_t>(size()));
}

Task<> RmaProxy::connect_to(Link link, SocketAddress to) {
  const auto nic = rank_.world().nic(comm_.members.of[static_cast<size_t>(link.peer)]);
  Communicator::Ends ends;
  ends.own = adapter_.open(link);
  const IbReady ready = [&](const IbSide& theirs) { adapter_.connect(ends.own, theirs); };
  ends.theirs = co_await ib_send(rank_, rank_.world(), to, ends.own, nic, ready);
  --under_way_;
}

Task<> RmaProxy::accept_from(Link link, ListeningSocket* listener, bool last) {
  const auto nic = rank_.world().nic(comm_.members.of[static_cast<size_t>(link.peer)]);
  Communicator::Ends ends;
  ends.own = adapter_.open(link);
  const IbReady ready = [&](const IbSide& theirs) { adapter_.connect(ends.own, theirs); };
  ends.theirs = co_await ib_receive(rank_, rank_.world(), listener, ends.own, nic, ready, last);
  --under_way_;
}

Task<> RmaProxy::connect_ring() {
  ListeningSocket* const listener = rank_.listen();
  const auto handles =
      co_await rank_.gather(&comm_, handle_of(listener->address), "handles for a ring");
  const int next = (own() + 1) % size(), previous = (own() + size() - 1) % size();
  rank_.stand("the ring of one-sided connections");
  under_way_ = 2;
  rank_.spawn(accept_from({0, previous, RmaAdapter::kRing, false}, listener, true));
  rank_.spawn(connect_to({0, next, RmaAdapter::kRing, true},
                         listener_in(handles[static_cast<size_t>(next)], next)));
  co_await rank_.until([this] { return under_way_ == 0; });
}

Task<> RmaProxy::connect_mesh() {
  ListeningSocket* const listener = rank_.listen();
  const auto handles = co_await gather(handle_of(listener->address), "handles for a mesh");
  for (int i = 0; i < size(); ++i) {
    if (i > 0) {
      const int to = (own() + i) % size(), from = (own() + size() - i) % size();
      rank_.stand("one-sided connections, step " + std::to_string(i));
      under_way_ = 2;
      rank_.spawn(accept_from({0, from, RmaAdapter::kMesh, false}, listener, i == size() - 1));
      rank_.spawn(connect_to({0, to, RmaAdapter::kMesh, true},
                             listener_in(handles[static_cast<size_t>(to)], to)));
      co_await rank_.until([this] { return under_way_ == 0; });
    }
    if (i == stops_before_) co_await rank_.until([] { return false; });
    co_await gather(of32(0), "barrier " + std::to_string(i) + " of one-sided connections");
  }
}

// net_ib/gin.cc, ncclGinIbAllGather.
Task<std::vector<Bytes>> RmaProxy::gather(Bytes slice, std::string what) {
  rank_.stand(what);
  std::vector<Bytes> all(static_cast<size_t>(size()));
  const size_t bytes = slice.size();
  int from = own();
  all[static_cast<size_t>(from)] = std::move(slice);
  for (int i = 0; i + 1 < size(); ++i) {
    const int next = (from + size() - 1) % size();
    adapter_.ring_receive(bytes);
    adapter_.ring_send(all[static_cast<size_t>(from)]);
    ++ring_sent_;
    ++ring_came_;
    co_await rank_.until([this] {
      return adapter_.failed() ||
             (adapter_.ring_sent() >= ring_sent_ && adapter_.ring_received().size() >= ring_came_);
    });
    require(!adapter_.failed(), what + ": a queue pair failed");
    const Bytes& came = adapter_.ring_received()[ring_came_ - 1];
    require(came.size() == bytes,
            what + ": " + std::to_string(came.size()) + " bytes of " + rank_text(next));
    all[static_cast<size_t>(next)] = came;
    from = next;
  }
  co_return all;
}

Task<RmaProxy::Window*> RmaProxy::registered(uint64_t bytes) {
  Window& window = windows_.emplace_back();
  window.own = adapter_.expose(bytes);
  const auto addresses = co_await gather(of64(window.own.address), "addresses of memory");
  const auto keys = co_await gather(of32(window.own.rkey), "keys of memory");
  for (int r = 0; r < size(); ++r) {
    window.addresses.push_back(u64_at(addresses[static_cast<size_t>(r)], 0));
    window.rkeys.push_back(u32_at(keys[static_cast<size_t>(r)], 0));
    require(window.addresses.back() != 0 && window.rkeys.back() != 0,
            "memory of " + rank_text(r) + " that cannot be reached");
  }
  co_return &window;
}

/// bootstrap.cc, bootstrapBarrier: a dissemination.
Task<> RmaProxy::barrier(int tag) {
  for (int mask = 1; mask < size(); mask <<= 1) {
    co_await rank_.say(&comm_, (own() + mask) % size(), tag, Bytes(4));
    co_await rank_.hear(&comm_, (own() + size() - mask) % size(), tag, 4, "barrier of a window");
  }
}

uint64_t RmaProxy::signal_of(int peer) const {
  return u64_at(Bytes(windows_[0].own.bytes, windows_[0].own.bytes + windows_[0].own.size),
                static_cast<size_t>(peer) * kSignalBytes);
}

void RmaProxy::send_signal(int peer) {
  const auto to = static_cast<size_t>(peer);
  Sent& sent = signals_.emplace_back(Sent{peer, sent_[to]++, ~uint64_t{0}});
  const Window& signals = windows_[0];
  adapter_.signal(peer, &sent.original,
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
