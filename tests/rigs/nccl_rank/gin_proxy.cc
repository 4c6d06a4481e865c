#include "tests/rigs/nccl_rank/gin_proxy.h"

#include <algorithm>
#include <cstring>

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

constexpr uint64_t kGinSignalBytes = 8;
/// Descriptors for a peer: NCCL_NET_MAX_REQUESTS times NCCL_NET_IB_MAX_RECVS.
constexpr uint64_t kQueue = uint64_t{32} * 8;
/// NCCL_GIN_SIGNAL_POOL_SIZE of 2.28, of 2.29.
constexpr uint64_t kPool28 = 64 << 10, kPool29 = 512 << 10;

}  // namespace

// ncclGinConnectOnce. Up to 2.29 with the contexts.
Task<> GinProxy::connect() {
  if (minor() < 29) {
    for (size_t c = 0; c < contexts_.size(); ++c) {
      co_await rings_[c].connect_at_once(contexts_[c]);
      co_await make_context(c, kPool28, 1);
    }
    co_return;
  }
  Bytes count(4);
  put32(count, 0, 1);
  const auto counts = co_await rank_.gather(&comm_, count, "GIN's connections");
  for (const Bytes& one : counts) require(one == count, "GIN's connections: others than ours");
  if (minor() >= 30) {
    co_await rings_.front().connect();
    co_return;
  }
  std::vector<RmaRing::Other> others;
  for (size_t c = 1; c < contexts_.size(); ++c) others.push_back({&rings_[c], contexts_[c]});
  co_await rings_.front().connect_at_once(contexts_.front(), others);
  of_context_ = kPool29;
  co_await make_context(0, kPool29, contexts_.size());
}

// ncclGinProxyCreateContext, after its meshes.
Task<> GinProxy::make_context(size_t ring, uint64_t signals, size_t contexts) {
  RmaRing& over = rings_[ring];
  signals_.push_back(
      co_await over.registered(over.adapter().expose(signals * contexts * kGinSignalBytes)));
  for (size_t c = 0; c < contexts; ++c) {
    co_await over.registered(
        over.adapter().expose(kQueue * static_cast<uint64_t>(over.size()) * kGinSignalBytes));
  }
}

// ncclDevrCommCreateInternal: ncclGinConnectOnce, windows that there are, ncclGinDevCommSetup, the
// communicator's own window.
Task<> GinProxy::create_device_communicator(uint64_t signals, uint64_t buffer) {
  co_await connect();
  connected_ = true;
  const std::vector<RmaMemory> before = windows_.memories();
  for (auto memory = before.rbegin(); memory != before.rend(); ++memory) {
    co_await registers(*memory);
  }
  if (minor() >= 30) {
    of_context_ = signals;
    co_await rings_.front().connect_meshes(contexts_);
    co_await make_context(0, signals, contexts_.size());
  }
  co_await windows_.register_window(buffer);
}

Task<> GinProxy::registers(RmaMemory memory) {
  if (!connected_) co_return;
  // In 2.29 all contexts of a NIC know it by their first ring.
  for (RmaRing& ring : rings_) {
    co_await ring.registered(memory);
    if (minor() >= 29) co_return;
  }
}

RmaWindow& GinProxy::window(int context, const RmaMemory& memory) {
  auto& windows = rings_[ring_of(context)].windows();
  const auto found = std::ranges::find_if(
      windows, [&](const RmaWindow& window) { return window.own.address == memory.address; });
  require(found != windows.end(), "GIN knows no such window");
  return *found;
}

uint64_t GinProxy::place(int context, uint64_t number) const {
  return (number + static_cast<uint64_t>(context) * of_context_) * kGinSignalBytes;
}

void GinProxy::put(int context, const RmaMemory& memory, uint64_t to, uint64_t from, uint64_t bytes,
                   int peer) {
  const auto number = static_cast<size_t>(peer);
  const RmaWindow& there = window(context, memory);
  contexts_[static_cast<size_t>(context)]->put(peer, memory.bytes + from, bytes,
                                               there.addresses[number] + to, there.rkeys[number]);
}

void GinProxy::signal(int context, uint64_t number, uint64_t value, int peer) {
  const auto to = static_cast<size_t>(peer);
  const uint64_t at = place(context, number);
  const RmaWindow& signals = *signals_[ring_of(context)];
  uint64_t& total = totals_[{peer, signals.addresses[to] + at}];
  Sent& sent = sent_.emplace_back(Sent{total, ~uint64_t{0}, peer});
  total += value;
  contexts_[static_cast<size_t>(context)]->signal(peer, value, &sent.original,
                                                  signals.addresses[to] + at, signals.rkeys[to]);
}

void GinProxy::get(int context, const RmaMemory& memory, uint64_t from, uint64_t bytes, int peer,
                   uint8_t* to) {
  const auto number = static_cast<size_t>(peer);
  const RmaWindow& there = window(context, memory);
  contexts_[static_cast<size_t>(context)]->get(peer, to, bytes, there.addresses[number] + from,
                                               there.rkeys[number]);
}

/// All that was posted is done, and signals found what those before them had left.
Task<> GinProxy::settled(std::string what) {
  rank_.stand(what);
  const auto failed = [this] { return std::ranges::any_of(contexts_, &RmaAdapter::failed); };
  co_await rank_.until([this, failed] {
    return failed() || std::ranges::all_of(contexts_, [](const RmaAdapter* context) {
             return context->done() == context->posted();
           });
  });
  require(!failed(), what + ": a queue pair failed");
  for (const Sent& sent : sent_) {
    require(sent.original == sent.expected, what + ": a signal to " + rank_text(sent.peer) +
                                                " found " + std::to_string(sent.original) +
                                                ", not " + std::to_string(sent.expected));
  }
  sent_.clear();
}

uint64_t GinProxy::signal_of(int context, uint64_t number) const {
  uint64_t value = 0;
  std::memcpy(&value, signals_[ring_of(context)]->own.bytes + place(context, number), sizeof value);
  return value;
}

Task<> GinProxy::wait_signal(int context, uint64_t number, uint64_t value) {
  rank_.stand("GIN's signal " + std::to_string(number) + " of context " + std::to_string(context) +
              " at " + std::to_string(value));
  co_await rank_.until([this, context, number, value] {
    return std::ranges::any_of(contexts_, &RmaAdapter::failed) ||
           signal_of(context, number) >= value;
  });
  require(std::ranges::none_of(contexts_, &RmaAdapter::failed), "a queue pair failed");
  require(signal_of(context, number) == value, "GIN's signal " + std::to_string(number) + " is " +
                                                   std::to_string(signal_of(context, number)) +
                                                   ", not " + std::to_string(value));
}

}  // namespace understudy::nccl_rank
