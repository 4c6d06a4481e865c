#include "tools/soft_nic/device/driver.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <mutex>

#include "tools/soft_nic/base/signals.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {

namespace {

/// A program that polled so lately is at it: two would only be in each other's way.
constexpr Duration kPolling = Duration::us(20);
constexpr int64_t kNapNs = 50'000;
constexpr int64_t kLongestSleepNs = 1'000'000'000;

}  // namespace

Driver::Driver(Nic& nic) : nic_(nic), alarm_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  nic_.set_alarm([this] { wake(); });
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

Driver::~Driver() {
  stopping_ = true;
  sleeping_ = true;
  wake();
  thread_.join();
  nic_.set_alarm({});
}

void Driver::wake() {
  if (!sleeping_.load()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(alarm_.get(), &one, sizeof one);
}

void Driver::wait(bool for_frames, int64_t ns) {
  pollfd fds[2] = {{alarm_.get(), POLLIN, 0}, {nic_.port().wait_fd(), POLLIN, 0}};
  const timespec most{ns / 1'000'000'000, ns % 1'000'000'000};
  ppoll(fds, for_frames ? 2 : 1, &most, nullptr);
  uint64_t alarms;
  if ((fds[0].revents & POLLIN) != 0) {
    [[maybe_unused]] const auto got = read(alarm_.get(), &alarms, sizeof alarms);
  }
}

void Driver::run() {
  while (!stopping_) {
    const Time now = nic_.now();
    sleeping_ = true;  // before the looks that decide, so that no alarm is missed
    if (now - nic_.polled_at() < kPolling) {
      wait(false, kNapNs);
      sleeping_ = false;
      continue;
    }
    const Duration left = nic_.next_wake() - now;
    if (nic_.next_wake().is_never() || left > Duration()) {
      const int64_t ns = nic_.next_wake().is_never() ? kLongestSleepNs : left.ps() / 1000 + 1;
      if (nic_.begin_wait()) {
        wait(true, std::min(ns, kLongestSleepNs));
        nic_.end_wait();
      }
    }
    sleeping_ = false;
    if (nic_.now() - nic_.polled_at() < kPolling) continue;
    const std::lock_guard lock(nic_.mutex());
    nic_.progress(nic_.now());
  }
}

}  // namespace understudy::soft_nic
