#include "tests/rigs/nccl_rank/gin_proxy.h"

#include <algorithm>
#include <cstring>

#include "tools/nccl_decode/fields.h"

namespace understudy::nccl_rank {
namespace {

constexpr uint64_t kGinSignalBytes = 8;
/// Descriptors for a peer: NCCL_NET_MAX_REQUESTS times NCCL_NET_IB_MAX_RECVS.
constexpr uint64_t kQueue = uint64_t{32} * 8;

}  // namespace

// ncclDevrCommCreateInternal: ncclGinConnectOnce, windows that there are, ncclGinDevCommSetup, the
// communicator's own window.
Task<> GinProxy::create_device_communicator(uint64_t signals, uint64_t buffer) {
  Bytes count(4);
  put32(count, 0, 1);
  const auto counts = co_await rank_.gather(&comm_, count, "GIN's connections");
  for (const Bytes& one : counts) require(one == count, "GIN's connections: others than ours");
  co_await ring_.connect();
  connected_ = true;
  const std::vector<RmaMemory> before = windows_.memories();
  for (auto memory = before.rbegin(); memory != before.rend(); ++memory) {
    co_await ring_.registered(*memory);
  }
  // ncclGinProxyCreateContext.
  co_await ring_.connect_meshes(contexts_);
  of_context_ = signals;
  if (signals > 0) {
    signals_ = co_await ring_.registered(
        ring_.adapter().expose(signals * contexts_.size() * kGinSignalBytes));
  }
  for (size_t c = 0; c < contexts_.size(); ++c) {
    co_await ring_.registered(
        ring_.adapter().expose(kQueue * static_cast<uint64_t>(ring_.size()) * kGinSignalBytes));
  }
  co_await windows_.register_window(buffer);
}

Task<> GinProxy::registers(RmaMemory memory) {
  if (connected_) co_await ring_.registered(memory);
}

RmaWindow& GinProxy::window(const RmaMemory& memory) {
  const auto found = std::ranges::find_if(ring_.windows(), [&](const RmaWindow& window) {
    return window.own.address == memory.address;
  });
  require(found != ring_.windows().end(), "GIN knows no such window");
  return *found;
}

uint64_t GinProxy::place(int context, uint64_t number) const {
  return (number + static_cast<uint64_t>(context) * of_context_) * kGinSignalBytes;
}

void GinProxy::put(int context, const RmaWindow& window, uint64_t to, uint64_t from, uint64_t bytes,
                   int peer) {
  const auto number = static_cast<size_t>(peer);
  contexts_[static_cast<size_t>(context)]->put(peer, window.own.bytes + from, bytes,
                                               window.addresses[number] + to, window.rkeys[number]);
}

void GinProxy::signal(int context, uint64_t number, uint64_t value, int peer) {
  const auto to = static_cast<size_t>(peer);
  const uint64_t at = place(context, number);
  uint64_t& total = totals_[{peer, at}];
  Sent& sent = sent_.emplace_back(Sent{total, ~uint64_t{0}, peer});
  total += value;
  contexts_[static_cast<size_t>(context)]->signal(
      peer, value, &sent.original, signals_->addresses[to] + at, signals_->rkeys[to]);
}

void GinProxy::get(int context, const RmaWindow& window, uint64_t from, uint64_t bytes, int peer,
                   uint8_t* to) {
  const auto number = static_cast<size_t>(peer);
  contexts_[static_cast<size_t>(context)]->get(peer, to, bytes, window.addresses[number] + from,
                                               window.rkeys[number]);
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
  std::memcpy(&value, signals_->own.bytes + place(context, number), sizeof value);
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
