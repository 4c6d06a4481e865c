// A network in memory for NCCL's emulated ranks, and real ranks that go through the bootstrap as
// NCCL does (coroutines, so that they read like its code).
#pragma once

#include <coroutine>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "ctrl/peers/nccl/bootstrap/frames.h"
#include "ctrl/peers/nccl/communicator.h"

namespace understudy::nccl_test {

using Bytes = std::vector<uint8_t>;

struct Gone : std::exception {
  const char* what() const noexcept override { return "the other side has closed"; }
};

/// A coroutine that others may await; starts at once.
template <typename T>
class Task {
 public:
  struct promise_type {
    T value{};
    std::exception_ptr error;
    std::coroutine_handle<> after;
    bool done = false;
    Task get_return_object() { return Task(Handle::from_promise(*this)); }
    std::suspend_never initial_suspend() { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept {
        h.promise().done = true;
        if (h.promise().after) return h.promise().after;
        return std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(T v) { value = std::move(v); }
    void unhandled_exception() { error = std::current_exception(); }
  };
  using Handle = std::coroutine_handle<promise_type>;
  explicit Task(Handle h) : handle_(h) {}
  Task(Task&& o) noexcept : handle_(std::exchange(o.handle_, {})) {}
  Task& operator=(Task&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }
  bool await_ready() const { return handle_.promise().done; }
  void await_suspend(std::coroutine_handle<> after) { handle_.promise().after = after; }
  T await_resume() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return std::move(handle_.promise().value);
  }
  const T& result() const { return handle_.promise().value; }
  bool done() const { return handle_.promise().done; }
  bool failed() const { return handle_.promise().error != nullptr; }

 private:
  Handle handle_;
};

/// One end of a connection; `ghost` ends belong to the machine under test.
struct End {
  End* peer = nullptr;
  bool ghost = false;
  StreamId stream = 0;
  std::deque<uint8_t> in;
  bool closed = false, peer_closed = false;
  size_t need = 0;
  std::coroutine_handle<> waiter;
};

struct RealListener {
  std::deque<End*> came;
  std::coroutine_handle<> waiter;
};

class World : public NcclHost {
 public:
  explicit World(uint64_t seed = 1) : random_(seed) {}

  void start(NcclCommunicatorSettings settings) {
    machine_ = std::make_unique<NcclCommunicator>(std::move(settings), *this);
    machine_->start(Time::zero());
  }
  NcclCommunicator& machine() { return *machine_; }
  bool has_machine() const { return machine_ != nullptr; }
  void run(size_t most = ~size_t{0}) {
    for (; !events_.empty() && most > 0; --most) {
      auto event = std::move(events_.front());
      events_.pop_front();
      ++steps;
      event();
    }
  }

  // For real ranks.
  SocketAddress real_listen() {
    const SocketAddress at = next_address(1);
    real_listeners_[at];
    return at;
  }
  void real_close(End* end) {
    if (end->closed) return;
    end->closed = true;
    closed_by(end->peer);
  }
  void write(End* end, const Bytes& bytes) {
    if (!end->closed && !vanished_) deliver(end->peer, bytes);
  }
  /// All processes of real ranks die: their connections close, nobody listens.
  void vanish() {
    vanished_ = true;
    for (const auto& end : ends_) {
      if (!end->ghost) real_close(end.get());
    }
  }
  /// Reads may be cut short only by an exception.
  auto read(End* end, size_t size) {
    struct Awaiter {
      End* end;
      size_t size;
      bool await_ready() const { return end->in.size() >= size || end->peer_closed; }
      void await_suspend(std::coroutine_handle<> h) {
        end->need = size;
        end->waiter = h;
      }
      Bytes await_resume() {
        if (end->in.size() < size) throw Gone();
        const auto to = end->in.begin() + static_cast<ptrdiff_t>(size);
        Bytes bytes(end->in.begin(), to);
        end->in.erase(end->in.begin(), to);
        return bytes;
      }
    };
    return Awaiter{end, size};
  }
  auto accept(const SocketAddress& at) {
    struct Awaiter {
      RealListener& listener;
      bool await_ready() const { return !listener.came.empty(); }
      void await_suspend(std::coroutine_handle<> h) { listener.waiter = h; }
      End* await_resume() {
        End* end = listener.came.front();
        listener.came.pop_front();
        return end;
      }
    };
    return Awaiter{real_listeners_.at(at)};
  }
  End* real_connect(const SocketAddress& to) {
    End* mine = new_end();
    if (vanished_) {
      mine->peer_closed = true;
      return mine;
    }
    End* other = new_end();
    join(mine, other);
    if (const auto real = real_listeners_.find(to); real != real_listeners_.end()) {
      arrive(real->second, other);
    } else if (const auto ghost = listeners_.find(to); ghost != listeners_.end()) {
      other->ghost = true;
      other->stream = new_stream();
      ghosts_[other->stream] = other;
      const ListenerId listener = ghost->second;
      const StreamId stream = other->stream;
      events_.push_back([this, listener, stream] {
        machine_->on_accepted(Time::zero(), listener, stream, next_address(7));
      });
    } else {
      mine->peer_closed = true;
    }
    return mine;
  }
  /// The real rank's net_ib has connected to an emulated rank's handle.
  void net_connected(const SocketAddress& at) {
    const NcclConnector connector = expected.at(at);
    events_.push_back([this, connector] { machine_->on_connector_ready(Time::zero(), connector); });
  }

  // NcclHost
  Result<SocketAddress> listen(uint32_t rank, ListenerId listener) override {
    const SocketAddress at = next_address(100 + rank);
    listeners_[at] = listener;
    at_[listener] = at;
    most_listeners = std::max(most_listeners, at_.size());
    return at;
  }
  void stop_listening(ListenerId listener) override {
    listeners_.erase(at_.at(listener));
    at_.erase(listener);
  }
  ListenerId new_listener() override { return ++last_listener_; }
  void dial(uint32_t, const SocketAddress& to, StreamId stream) override {
    End* mine = new_end();
    mine->ghost = true;
    mine->stream = stream;
    ghosts_[stream] = mine;
    const auto real = real_listeners_.find(to);
    if (real == real_listeners_.end() || vanished_) {
      events_.push_back([this, stream] {
        if (ghosts_.erase(stream) > 0) machine_->on_closed(Time::zero(), stream, "refused");
      });
      return;
    }
    End* other = new_end();
    join(mine, other);
    arrive(real->second, other);
    events_.push_back([this, stream] {
      if (ghosts_.contains(stream)) machine_->on_connected(Time::zero(), stream);
    });
  }
  StreamId new_stream() override { return ++last_stream_; }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    deliver(ghosts_.at(stream)->peer, {bytes.begin(), bytes.end()});
  }
  void close(StreamId stream) override {
    End* end = ghosts_.at(stream);
    ghosts_.erase(stream);
    end->closed = true;
    if (end->peer != nullptr) closed_by(end->peer);
  }
  Result<SocketAddress> expect(const NcclConnector& connector) override {
    const SocketAddress at = next_address(100 + connector.emulated);
    expected[at] = connector;
    connectors.insert(connector);
    return at;
  }
  void connect(const NcclConnector& connector, const SocketAddress& listener,
               uint64_t magic) override {
    dialed[connector] = listener;
    net_magic = magic;
    connectors.insert(connector);
    events_.push_back([this, connector] { machine_->on_connector_ready(Time::zero(), connector); });
  }
  void disconnect(const NcclConnector& connector) override { connectors.erase(connector); }
  void say(const std::string& line) override { said.push_back(line); }

  /// Where an emulated rank listens.
  std::optional<SocketAddress> listener_of(uint32_t rank) const {
    for (const auto& [at, listener] : listeners_) {
      if (at.address == IpAddress::v4(0x0a000000 + 100 + rank)) return at;
    }
    return std::nullopt;
  }

  std::map<SocketAddress, NcclConnector> expected;
  std::map<NcclConnector, SocketAddress> dialed;
  std::set<NcclConnector> connectors;  ///< not given back
  uint64_t net_magic = 0;
  std::vector<std::string> said;
  bool in_pieces = false;  ///< what goes to the machine comes in pieces of drawn sizes
  uint64_t damage = 0;     ///< of so many pieces one has a bit flipped; 0: none
  size_t most_listeners = 0, steps = 0;
  uint32_t last_port() const { return 10000 + last_port_; }
  size_t open_streams() const { return ghosts_.size(); }
  size_t open_listeners() const { return at_.size(); }

 private:
  SocketAddress next_address(uint32_t host) {
    return {IpAddress::v4(0x0a000000 + host), static_cast<uint16_t>(10000 + ++last_port_ % 50000)};
  }
  End* new_end() {
    ends_.push_back(std::make_unique<End>());
    return ends_.back().get();
  }
  static void join(End* a, End* b) {
    a->peer = b;
    b->peer = a;
  }
  void wake(std::coroutine_handle<>& waiter) {
    if (!waiter) return;
    events_.push_back([h = std::exchange(waiter, {})] { h.resume(); });
  }
  void arrive(RealListener& listener, End* end) {
    listener.came.push_back(end);
    wake(listener.waiter);
  }
  void deliver(End* to, const Bytes& bytes) {
    if (to == nullptr || to->closed) return;
    if (!to->ghost) {
      to->in.insert(to->in.end(), bytes.begin(), bytes.end());
      if (to->in.size() >= to->need) wake(to->waiter);
      return;
    }
    for (size_t at = 0; at < bytes.size();) {
      const size_t most = bytes.size() - at;
      const size_t size = in_pieces ? 1 + random_() % most : most;
      Bytes piece(bytes.begin() + static_cast<ptrdiff_t>(at),
                  bytes.begin() + static_cast<ptrdiff_t>(at + size));
      at += size;
      if (damage > 0 && random_() % damage == 0) {
        piece[random_() % piece.size()] ^= static_cast<uint8_t>(1u << random_() % 8);
      }
      const StreamId stream = to->stream;
      events_.push_back([this, stream, piece = std::move(piece)] {
        if (ghosts_.contains(stream)) machine_->on_bytes(Time::zero(), stream, piece);
      });
    }
  }
  void closed_by(End* other) {
    if (other == nullptr || other->peer_closed) return;
    if (!other->ghost) {
      other->peer_closed = true;
      wake(other->waiter);
      return;
    }
    const StreamId stream = other->stream;
    events_.push_back([this, stream] {
      if (ghosts_.erase(stream) > 0) machine_->on_closed(Time::zero(), stream, "");
    });
  }

  std::mt19937_64 random_;
  std::unique_ptr<NcclCommunicator> machine_;
  std::deque<std::function<void()>> events_;
  std::deque<std::unique_ptr<End>> ends_;
  std::map<SocketAddress, RealListener> real_listeners_;
  std::map<SocketAddress, ListenerId> listeners_;
  std::map<ListenerId, SocketAddress> at_;
  std::map<StreamId, End*> ghosts_;
  ListenerId last_listener_ = 0;
  StreamId last_stream_ = 0;
  uint32_t last_port_ = 0;
  bool vanished_ = false;
};

}  // namespace understudy::nccl_test
