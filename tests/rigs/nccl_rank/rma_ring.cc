#include "tests/rigs/nccl_rank/rma_ring.h"

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

using nccl_decode::kIbMagic;
using nccl_decode::u32_at;
using nccl_decode::u64_at;

constexpr int kListenerBytes = 128, kListenerMagicAt = 32;

Bytes word32(uint32_t value) {
  Bytes out(4);
  put32(out, 0, value);
  return out;
}
Bytes word64(uint64_t value) {
  Bytes out(8);
  put64(out, 0, value);
  return out;
}

}  // namespace

Bytes RmaRing::handle_of(const SocketAddress& at) const {
  Bytes handle(kListenerBytes);
  put_address(handle, 0, at);
  put64(handle, kListenerMagicAt, kIbMagic);
  return handle;
}

SocketAddress RmaRing::listener_in(const Bytes& handle, int peer) const {
  const std::string who = "one-sided handle of " + rank_text(peer);
  const SocketAddress at = read_address(handle, 0, who);
  require(handle == handle_of(at), who + ": something else is set, or its magic is another");
  return at;
}

Task<> RmaRing::connect_to(RmaAdapter* adapter, Link link, SocketAddress to) {
  const auto nic = rank_.world().nic(comm_.members.of[static_cast<size_t>(link.peer)]);
  Communicator::Ends ends;
  ends.own = adapter->open(link);
  const IbReady ready = [&](const IbSide& theirs) { adapter->connect(ends.own, theirs); };
  ends.theirs = co_await ib_send(rank_, rank_.world(), to, ends.own, nic, ready);
  --under_way_;
}

Task<> RmaRing::accept_from(RmaAdapter* adapter, Link link, ListeningSocket* listener, bool last) {
  const auto nic = rank_.world().nic(comm_.members.of[static_cast<size_t>(link.peer)]);
  Communicator::Ends ends;
  ends.own = adapter->open(link);
  const IbReady ready = [&](const IbSide& theirs) { adapter->connect(ends.own, theirs); };
  ends.theirs = co_await ib_receive(rank_, rank_.world(), listener, ends.own, nic, ready, last);
  --under_way_;
}

Task<std::vector<Bytes>> RmaRing::exchange_handles(ListeningSocket* listener) {
  co_return co_await rank_.gather(&comm_, handle_of(listener->address), "handles for a ring");
}

Task<> RmaRing::connect_ring(ListeningSocket* listener, const std::vector<Bytes>* handles,
                             bool last) {
  const int next = (own() + 1) % size(), previous = (own() + size() - 1) % size();
  rank_.stand("the ring of one-sided connections");
  under_way_ = 2;
  rank_.spawn(accept_from(&adapter_, {0, previous, RmaAdapter::kRing, false}, listener, last));
  rank_.spawn(connect_to(&adapter_, {0, next, RmaAdapter::kRing, true},
                         listener_in((*handles)[static_cast<size_t>(next)], next)));
  co_await rank_.until([this] { return under_way_ == 0; });
}

Task<> RmaRing::connect() {
  ListeningSocket* const listener = rank_.listen();
  const auto handles = co_await exchange_handles(listener);
  co_await connect_ring(listener, &handles, true);
}

Task<> RmaRing::connect_at_once(RmaAdapter* mesh, std::vector<Other> others, int stops_before) {
  ListeningSocket* const listener = rank_.listen();
  const auto handles = co_await exchange_handles(listener);
  others.insert(others.begin(), {this, mesh});
  for (size_t i = 0; i < others.size(); ++i) {
    Meshes meshes{{others[i].mesh}, listener, handles, stops_before};
    meshes.more = i + 1 < others.size();
    co_await others[i].ring->connect_ring(listener, &handles, false);
    co_await others[i].ring->make(std::move(meshes));
  }
}

Task<> RmaRing::connect_meshes(std::vector<RmaAdapter*> adapters, int stops_before) {
  ListeningSocket* const listener = rank_.listen();
  Meshes meshes{std::move(adapters), listener, {}, stops_before};
  meshes.handles = co_await gather(handle_of(listener->address), "handles for a mesh");
  co_await make(std::move(meshes));
}

Task<> RmaRing::make(Meshes meshes) {
  for (size_t m = 0; m < meshes.adapters.size(); ++m) {
    for (int i = 0; i < size(); ++i) {
      if (i > 0) {
        const int to = (own() + i) % size(), from = (own() + size() - i) % size();
        rank_.stand("one-sided connections, step " + std::to_string(i));
        under_way_ = 2;
        const bool last = i == size() - 1 && m + 1 == meshes.adapters.size() && !meshes.more;
        const int number = static_cast<int>(m);
        rank_.spawn(accept_from(meshes.adapters[m], {number, from, RmaAdapter::kMesh, false},
                                meshes.listener, last));
        rank_.spawn(connect_to(meshes.adapters[m], {number, to, RmaAdapter::kMesh, true},
                               listener_in(meshes.handles[static_cast<size_t>(to)], to)));
        co_await rank_.until([this] { return under_way_ == 0; });
      }
      if (m == 0 && i == meshes.stops_before) co_await rank_.until([] { return false; });
      co_await gather(word32(0), "barrier " + std::to_string(i) + " of one-sided connections");
    }
  }
}

// net_ib/gin.cc, ncclGinIbAllGather.
Task<std::vector<Bytes>> RmaRing::gather(Bytes slice, std::string what) {
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

Task<RmaWindow*> RmaRing::registered(RmaMemory memory) {
  RmaWindow& window = windows_.emplace_back();
  window.own = memory;
  const auto addresses = co_await gather(word64(window.own.address), "addresses of memory");
  const auto keys = co_await gather(word32(window.own.rkey), "keys of memory");
  for (int r = 0; r < size(); ++r) {
    window.addresses.push_back(u64_at(addresses[static_cast<size_t>(r)], 0));
    window.rkeys.push_back(u32_at(keys[static_cast<size_t>(r)], 0));
    require(window.addresses.back() != 0 && window.rkeys.back() != 0,
            "memory of " + rank_text(r) + " that cannot be reached");
  }
  co_return &window;
}

}  // namespace understudy::nccl_rank
