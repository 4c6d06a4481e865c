#include "tools/rigs/ring_node/base/polling.h"

#include <sched.h>
#include <sys/prctl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

namespace understudy {
namespace {

/// Empty polls before the processor is offered to others: Soft-RoCE may need it for our packets.
constexpr unsigned kPollsPerYield = 64;
/// Empty polls, about a millisecond of them, after which it sleeps between polls: a virtual machine
/// that spins through a long message takes the processor from what sends the message.
constexpr unsigned kPollsBeforeSleep = 16384;
constexpr std::chrono::microseconds kSleep{50};
/// Empty polls before the clock is read, which is a system call in some virtual machines.
constexpr unsigned kPollsPerLook = 1024;
constexpr uint64_t kLookEveryNs = 1'000'000'000;

/// Waits as long as is right after so many empty polls.
void pause_polling(unsigned idle_polls) {
  if (idle_polls >= kPollsBeforeSleep) {
    std::this_thread::sleep_for(kSleep);
  } else if (idle_polls % kPollsPerYield == 0) {
    sched_yield();
  }
}

/// `flags`: of clock_nanosleep.
Result<void> sleep(uint64_t ns, int flags) {
  // Else a sleep may be up to 50 us longer.
  prctl(PR_SET_TIMERSLACK, 1);
  constexpr uint64_t kSecond = 1'000'000'000;
  const timespec time{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  const int error = clock_nanosleep(CLOCK_MONOTONIC, flags, &time, nullptr);
  return error == 0 ? Result<void>()
                    : fail(std::string("clock_nanosleep: ") + std::strerror(error));
}

}  // namespace

uint64_t now_ns() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(since).count());
}

Result<void> sleep_until(uint64_t ns) { return sleep(ns, TIMER_ABSTIME); }

Result<void> wait_before_operation(const RingNodeOptions& options) {
  const auto period = static_cast<uint64_t>(options.period.count());
  auto wait = static_cast<uint64_t>(options.delay.count());
  if (period != 0) wait += (now_ns() / period + 1) * period;
  if (wait == 0) return {};
  return sleep(wait, period != 0 ? TIMER_ABSTIME : 0);
}

bool IdlePolls::wait() {
  ++polls_;
  pause_polling(polls_);
  if (polls_ % kPollsPerLook != 0) return false;
  const uint64_t now = now_ns();
  if (last_progress_ == 0) last_progress_ = last_look_ = now;
  if (now - last_look_ < kLookEveryNs) return false;
  last_look_ = now;
  idle_ns_ = now - last_progress_;
  return true;
}

}  // namespace understudy
