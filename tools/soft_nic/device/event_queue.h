// Events that a program waits for by a file descriptor, as the channels of verbs and RDMA-CM have
// it.
#pragma once

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <mutex>

#include "dataplane/base/unique_fd.h"

namespace understudy::soft_nic {

template <typename Event>
class EventQueue {
 public:
  EventQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}

  /// Readable while there is an event; programs may make it non-blocking and poll it.
  int fd() const { return fd_.get(); }

  void push(const Event& event) {
    {
      const std::lock_guard guard(mutex_);
      events_.push_back(event);
    }
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = write(fd_.get(), &one, sizeof one);
  }

  /// Waits for the oldest event unless the descriptor is non-blocking. False with errno set when
  /// there is none. An event that forget() took away meanwhile is waited out.
  bool pop(Event& out) {
    for (;;) {
      uint64_t one;
      if (read(fd_.get(), &one, sizeof one) != sizeof one) return false;
      const std::lock_guard guard(mutex_);
      if (events_.empty()) continue;
      out = events_.front();
      events_.pop_front();
      return true;
    }
  }

  /// Drops all events that `of` says yes to.
  template <typename Predicate>
  void forget(Predicate of) {
    const std::lock_guard guard(mutex_);
    uint64_t one;
    iovec room{&one, sizeof one};
    for (size_t left = std::erase_if(events_, of); left > 0; --left) {
      // Never waits: who has read already and finds no event reads again.
      [[maybe_unused]] const auto got = preadv2(fd_.get(), &room, 1, -1, RWF_NOWAIT);
    }
  }

 private:
  UniqueFd fd_;
  std::mutex mutex_;
  std::deque<Event> events_;
};

}  // namespace understudy::soft_nic
