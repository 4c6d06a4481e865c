#include "tools/rigs/guest_poll/frames.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace guest_poll {
namespace {

/// Longest wait for a frame: what timers of the kernel bring is seen so late.
constexpr timespec kLongestWait{0, 10'000'000};

std::atomic<bool> sent_count{false};

/// Frames, cut to a byte, for each thread that polls.
class Frames {
 public:
  Frames()
      : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
        timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    const itimerspec period{kLongestWait, kLongestWait};
    timerfd_settime(timer_, 0, &period, nullptr);
    sock_filter take_one_byte = BPF_STMT(BPF_RET | BPF_K, 1);
    const sock_fprog program{1, &take_one_byte};
    setsockopt(fd_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
    ignore_sent(true);
    sockaddr_ll all{};
    all.sll_family = AF_PACKET;
    all.sll_protocol = htons(ETH_P_ALL);
    // Where it fails, the timer alone ends a wait.
    static_cast<void>(!bind(fd_, reinterpret_cast<sockaddr*>(&all), sizeof all));
  }
  ~Frames() {
    close(fd_);
    close(timer_);
  }

  /// A limit of the wait's own would look at the clock, and a call that fails would take time; one
  /// that finds nothing does not.
  bool wait() {
    if (ignores_sent_ && sent_count.load(std::memory_order_relaxed)) ignore_sent(false);
    pollfd both[]{{fd_, POLLIN, 0}, {timer_, POLLIN, 0}};
    if (poll(both, 2, -1) < 0) return false;
    char bytes[8];
    if ((both[1].revents & POLLIN) != 0) static_cast<void>(!read(timer_, bytes, sizeof bytes));
    while (poll(both, 1, 0) > 0 && recv(fd_, bytes, 1, 0) >= 0) {
    }
    return true;
  }

 private:
  void ignore_sent(bool ignore) {
    const int on = ignore ? 1 : 0;
    setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    ignores_sent_ = ignore;
  }

  const int fd_, timer_;
  bool ignores_sent_ = false;
};

Frames& frames() {
  thread_local Frames own;
  return own;
}

}  // namespace

void open_frames() { frames(); }

bool wait_for_frame() { return frames().wait(); }

void count_sent_frames() { sent_count.store(true, std::memory_order_relaxed); }

}  // namespace guest_poll
