// A TCP connection with time limits, for the out-of-band messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

class TcpStream {
 public:
  /// Tries again until `limit` is over while nobody listens or answers there.
  static Result<TcpStream> dial(const IpAddress& to, uint16_t port,
                                std::chrono::milliseconds limit);
  ~TcpStream();
  TcpStream(TcpStream&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;
  TcpStream& operator=(TcpStream&&) = delete;

  /// The address that this host uses towards the peer.
  Result<IpAddress> local_address() const;
  Result<void> send(std::span<const uint8_t> bytes);
  /// What has come, at most `limit` later; empty if nothing came. `closed` is set when the peer has
  /// closed.
  Result<std::vector<uint8_t>> receive(std::chrono::milliseconds limit, bool& closed);

 private:
  friend class TcpListener;
  explicit TcpStream(int fd) : fd_(fd) {}
  int fd_;
};

/// Waits for calls on all addresses of this host.
class TcpListener {
 public:
  /// Of the family of `like`.
  static Result<TcpListener> open(const IpAddress& like, uint16_t port);
  /// The first call of `from`; others are turned away.
  Result<TcpStream> accept(const IpAddress& from, std::chrono::milliseconds limit);

 private:
  explicit TcpListener(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace understudy
