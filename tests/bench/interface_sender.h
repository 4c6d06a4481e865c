// Frames to a network interface at a steady rate, for what measures how others keep up with them.
#pragma once

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "dataplane/base/unique_fd.h"

namespace understudy {

/// Seconds of the monotonic clock.
inline double seconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// Sends in batches through a packet socket (needs CAP_NET_RAW).
class InterfaceSender {
 public:
  static constexpr size_t kBatch = 32;

  /// `rate`: frames a second. False: errno says why.
  bool open(const char* interface, double rate) {
    rate_ = rate;
    socket_ = UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex(interface));
    const int on = 1;
    begin_ = seconds_now();
    return socket_.valid() && to.sll_ifindex != 0 &&
           ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
           ::setsockopt(socket_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) == 0;
  }

  bool add(std::span<const uint8_t> frame) {
    frames_[used_].assign(frame.begin(), frame.end());
    return ++used_ < kBatch || flush();
  }
  /// What waits for its batch to be full. False: errno says why.
  bool flush() {
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    for (size_t i = 0; i < used_; ++i) {
      parts[i] = {frames_[i].data(), frames_[i].size()};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    for (size_t done = 0; done < used_;) {
      const int sent =
          ::sendmmsg(socket_.get(), &messages[done], static_cast<unsigned>(used_ - done), 0);
      if (sent < 0 && errno != ENOBUFS && errno != EAGAIN && errno != EINTR) return false;
      done += static_cast<size_t>(std::max(sent, 0));
    }
    sent_ += used_;
    used_ = 0;
    return true;
  }

  /// Sleeps for as long as it is ahead of its rate.
  void keep_pace() const {
    constexpr double kEarly = 0.0005;  // of a second; naps are not shorter
    const double ahead = static_cast<double>(sent_ + used_) / rate_ - passed();
    if (ahead <= kEarly) return;
    const timespec nap{
        static_cast<time_t>(ahead),
        static_cast<long>((ahead - static_cast<double>(static_cast<time_t>(ahead))) * 1e9)};
    nanosleep(&nap, nullptr);
  }
  /// Seconds since open().
  double passed() const { return seconds_now() - begin_; }
  void say_how_many() const {
    const double took = passed();
    std::fprintf(stderr, "%lu packets in %.3f s: %.0f/s\n", static_cast<unsigned long>(sent_), took,
                 static_cast<double>(sent_) / took);
  }

 private:
  UniqueFd socket_;
  std::array<std::vector<uint8_t>, kBatch> frames_;
  size_t used_ = 0;
  uint64_t sent_ = 0;
  double rate_ = 1, begin_ = 0;
};

}  // namespace understudy
