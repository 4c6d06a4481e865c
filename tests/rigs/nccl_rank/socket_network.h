// The network of a process that is one: sockets of the kernel, without threads.
#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "dataplane/base/unique_fd.h"
#include "tests/rigs/nccl_rank/network.h"

namespace understudy::nccl_rank {

/// Errors of the system that nobody can do anything about are std::system_error.
class SocketNetwork final : public Network {
 public:
  SocketNetwork();
  using Network::listen;
  SocketAddress listen(NetworkUser& user, const IpAddress& address, Id listener,
                       uint16_t port) override;
  void stop_listening(Id listener) override;
  /// Tries again where nobody listens, for a minute as NCCL does (NCCL_SOCKET_RETRY_CNT).
  void dial(NetworkUser& user, const IpAddress& from, const SocketAddress& to, Id stream) override;
  void send(Id stream, std::span<const uint8_t> bytes) override;
  void close(Id stream) override;
  /// Tells the users what has happened; waits for it for as long. False: nothing has.
  bool step(std::chrono::milliseconds wait);

 private:
  using Clock = std::chrono::steady_clock;
  struct Listener {
    UniqueFd fd;
    NetworkUser* user = nullptr;
  };
  struct Stream {
    UniqueFd fd;
    NetworkUser* user = nullptr;
    bool connected = false;
    bool closing = false;  ///< by its user, with bytes that are still to go
    IpAddress from;
    SocketAddress to;
    Clock::time_point give_up;
    std::vector<uint8_t> out;
    uint32_t watched = 0;  ///< events
  };
  void watch(int fd, Id id, uint32_t events, uint32_t& watched);
  void connect(Id id, Stream& stream);
  bool dial_again();
  void refused(Id id, Stream& stream, int error);
  void on_listener(Id id);
  void on_stream(Id id, uint32_t events);
  void receive(Id id);
  /// False if the other side is gone.
  bool flush(Id id, Stream& stream);

  UniqueFd epoll_;
  std::map<Id, Listener> listeners_;
  std::map<Id, Stream> streams_;
  std::multimap<Clock::time_point, Id> again_;  ///< dials to be repeated
};

}  // namespace understudy::nccl_rank
