// Loaded into a program (LD_PRELOAD) in a guest in virtual time: lets time pass where the program
// polls. In such a guest computing takes no time, and so a loop that looks at a completion queue or
// the clock until something happens would see nothing happen for ever. Here an empty look waits for
// the next frame of any network device, exactly: what the frame brings is there when the wait is
// over.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace {

/// Longest wait for a frame: what timers of the kernel bring is seen so late.
constexpr timespec kLongestWait{0, 10'000'000};
/// A thread that gives way so often without anything else waits for time.
constexpr unsigned kYields = 16;
constexpr timespec kYieldWait{0, 1'000};
/// Looks at the clock one after another take 256 ns each. A program that does nothing else waits
/// for a time to come; each look then takes as long as this.
constexpr unsigned kLooks = 1000;
constexpr timespec kLookWait{0, 10'000};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// Frames that come in, cut to a byte, for each thread that polls.
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
    const int on = 1;
    setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
    sockaddr_ll all{};
    all.sll_family = AF_PACKET;
    all.sll_protocol = htons(ETH_P_ALL);
    bind(fd_, reinterpret_cast<sockaddr*>(&all), sizeof all);
  }
  ~Frames() {
    close(fd_);
    close(timer_);
  }

  /// Until a frame comes that was not waited for yet. A limit of the wait's own would look at the
  /// clock, and a call that fails would take time; one that finds nothing does not.
  void wait() {
    pollfd both[]{{fd_, POLLIN, 0}, {timer_, POLLIN, 0}};
    poll(both, 2, -1);
    char bytes[8];
    if ((both[1].revents & POLLIN) != 0) static_cast<void>(!read(timer_, bytes, sizeof bytes));
    while (poll(both, 1, 0) > 0 && recv(fd_, bytes, 1, 0) >= 0) {
    }
  }

 private:
  const int fd_, timer_;
};

Frames& frames() {
  thread_local Frames own;
  return own;
}

thread_local unsigned yields = 0, looks = 0;

void busy() { yields = looks = 0; }

using PollCq = int (*)(ibv_cq*, int, ibv_wc*);
std::atomic<PollCq> provider_poll_cq{nullptr};

int poll_cq(ibv_cq* cq, int entries, ibv_wc* completions) {
  const PollCq poll = provider_poll_cq.load(std::memory_order_acquire);
  const int found = poll(cq, entries, completions);
  busy();
  if (found != 0) return found;
  frames().wait();
  return poll(cq, entries, completions);
}

/// After many looks at the clock in a row.
void look() {
  if (++looks < kLooks) return;
  clock_nanosleep(CLOCK_MONOTONIC, 0, &kLookWait, nullptr);
}

}  // namespace

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  ibv_context* context = next<ibv_context* (*)(ibv_device*)>("ibv_open_device")(device);
  if (context == nullptr || context->ops.poll_cq == poll_cq) return context;
  provider_poll_cq.store(context->ops.poll_cq, std::memory_order_release);
  context->ops.poll_cq = poll_cq;
  // The first frames that matter come after this.
  frames();
  return context;
}

int sched_yield() {
  static const auto real = next<int (*)()>("sched_yield");
  if (++yields >= kYields) {
    yields = 0;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &kYieldWait, nullptr);
  }
  return real();
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = next<int (*)(clockid_t, timespec*)>("clock_gettime");
  look();
  return real(clock, time);
}

int gettimeofday(timeval* time, void* zone) noexcept {
  static const auto real = next<int (*)(timeval*, void*)>("gettimeofday");
  look();
  return real(time, zone);
}

}  // extern "C"
