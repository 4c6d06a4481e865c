// One process' sockets as NCCL uses them: connections that begin with magic and type, frames of a
// length and as many bytes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/rigs/nccl_rank/network.h"
#include "tests/rigs/nccl_rank/task.h"

namespace understudy::nccl_rank {

using Bytes = std::vector<uint8_t>;

/// Something that NCCL, or a stricter reader, would not take.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws with the text unless `holds`.
inline void require(bool holds, const std::string& text) {
  if (!holds) throw Refused(text);
}

enum SocketType : int { kBootstrapSocket = 1, kProxySocket = 2, kIbSocket = 4 };

struct Socket {
  Id id = 0;
  Bytes in;
  size_t taken = 0;  ///< of `in`
  size_t left() const { return in.size() - taken; }
  Bytes take(size_t size);
  bool connected = false, closed = false;  ///< closed by the other side
};

struct ListeningSocket {
  Id id = 0;
  SocketAddress address;
  std::deque<Socket*> accepted;
};

class Process : public NetworkUser {
 public:
  Process(Network& network, IpAddress address) : network_(network), address_(address) {}
  const IpAddress& address() const { return address_; }
  Network& network() { return network_; }

  /// `port` 0: any that is free.
  ListeningSocket* listen(uint16_t port = 0);
  void stop(ListeningSocket* listener);
  Task<Socket*> dial(SocketAddress to, uint64_t magic, int type);
  /// The next one with the right magic; others are closed. A wrong type is an error.
  Task<Socket*> accept(ListeningSocket* listener, uint64_t magic, int type);
  void send(Socket* socket, std::span<const uint8_t> bytes);
  void send_frame(Socket* socket, std::span<const uint8_t> payload);
  Task<Bytes> receive(Socket* socket, size_t size, std::string what);
  /// A frame of exactly `size` bytes.
  Task<Bytes> receive_frame(Socket* socket, size_t size, std::string what);
  /// The other side has nothing more to say, and closes.
  Task<> end_of(Socket* socket, std::string what);
  void close(Socket* socket);
  /// Everything, as when the process dies.
  void close_all();

  /// Runs beside what is there already.
  void spawn(Task<> task);
  Waits::Until until(Waits::Condition condition) { return waits_.until(std::move(condition)); }
  void run();
  /// What its tasks have refused; the first one.
  const std::string& failure() const { return failure_; }
  bool idle() const { return tasks_.empty(); }
  /// What tasks stand at, for texts of failed tests.
  std::string standing() const { return standing_; }
  void stand(const std::string& where) { standing_ = where; }

  void on_accepted(Id listener, Id stream, const SocketAddress& from) override;
  void on_connected(Id stream) override;
  void on_bytes(Id stream, std::span<const uint8_t> bytes) override;
  void on_closed(Id stream, const std::string& why) override;

 private:
  Network& network_;
  IpAddress address_;
  Waits waits_;
  std::map<Id, std::unique_ptr<Socket>> sockets_;
  std::map<Id, std::unique_ptr<ListeningSocket>> listeners_;
  std::vector<Task<>> tasks_;
  std::string failure_, standing_;
};

}  // namespace understudy::nccl_rank
