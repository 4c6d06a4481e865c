// TCP as a process uses it; and one in memory: listening sockets, connections, bytes that come in
// pieces, and closes, in an order that a seed draws. Each connection's bytes keep theirs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/host.h"

namespace understudy::nccl_rank {

using Id = uint64_t;

class NetworkUser {
 public:
  virtual ~NetworkUser() = default;
  virtual void on_accepted(Id listener, Id stream, const SocketAddress& from) = 0;
  virtual void on_connected(Id stream) = 0;
  virtual void on_bytes(Id stream, std::span<const uint8_t> bytes) = 0;
  virtual void on_closed(Id stream, const std::string& why) = 0;
};

class Network {
 public:
  virtual ~Network() = default;
  /// Of listeners and of ends of connections, whoever's.
  Id new_id() { return ++last_id_; }
  /// `port` 0: any that is free.
  virtual SocketAddress listen(NetworkUser& user, const IpAddress& address, Id listener,
                               uint16_t port) = 0;
  SocketAddress listen(NetworkUser& user, const IpAddress& address, Id listener) {
    return listen(user, address, listener, 0);
  }
  virtual void stop_listening(Id listener) = 0;
  /// Waits for a listener as long as there is none.
  virtual void dial(NetworkUser& user, const IpAddress& from, const SocketAddress& to,
                    Id stream) = 0;
  virtual void send(Id stream, std::span<const uint8_t> bytes) = 0;
  virtual void close(Id stream) = 0;

 private:
  Id last_id_ = 0;
};

class MemoryNetwork final : public Network {
 public:
  /// `whole`: bytes come as they were sent, which is faster.
  explicit MemoryNetwork(uint64_t seed, bool whole = false) : random_(seed), whole_(whole) {}
  using Network::listen;
  SocketAddress listen(NetworkUser& user, const IpAddress& address, Id listener,
                       uint16_t port) override;
  void stop_listening(Id listener) override;
  void dial(NetworkUser& user, const IpAddress& from, const SocketAddress& to, Id stream) override;
  void send(Id stream, std::span<const uint8_t> bytes) override;
  void close(Id stream) override;
  bool listens(const SocketAddress& at) const { return listeners_.contains(at); }
  /// Lets one thing happen; false: nothing is under way.
  bool step();
  uint64_t bytes() const { return bytes_; }
  /// Connections of which an end is open, and dials without a listener.
  size_t open_ends() const;
  size_t unanswered_dials() const { return dials_.size(); }

 private:
  struct Item {
    enum class Kind : uint8_t { kAccepted, kConnected, kBytes, kClosed } kind;
    std::vector<uint8_t> bytes;
    size_t taken = 0;
    Id listener = 0;
    SocketAddress from;
  };
  struct End {
    NetworkUser* user = nullptr;
    Id peer = 0;
    bool open = true;    ///< its user has not closed it
    bool ready = false;  ///< in ready_
    std::deque<Item> inbox;
  };
  struct Listener {
    NetworkUser* user = nullptr;
    Id id = 0;
  };
  struct Dial {
    NetworkUser* user = nullptr;
    SocketAddress from;
    Id stream = 0;
  };
  void put(Id end, Item item);
  void join(const Dial& dial, const Listener& listener);

  std::mt19937_64 random_;
  bool whole_;
  uint16_t last_port_ = 20000;
  uint64_t bytes_ = 0;
  std::map<SocketAddress, Listener> listeners_;
  std::unordered_map<Id, SocketAddress> listener_addresses_;
  std::multimap<SocketAddress, Dial> dials_;
  std::unordered_map<Id, End> ends_;
  std::vector<Id> ready_;  ///< ends with something in their inbox
};

}  // namespace understudy::nccl_rank
