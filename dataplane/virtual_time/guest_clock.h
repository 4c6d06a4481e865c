// The clock of a User-mode Linux guest in virtual time: our end of the protocol of its
// `time-travel=ext` mode (Linux, include/uapi/linux/um_timetravel.h). The guest asks for a time to
// run at, waits for it, runs until it waits again, and moves its own clock on as far as it is free.
// All times are nanoseconds since it began.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy {

class GuestClock {
 public:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  /// `wait`: until the connection has something to read, or an error.
  using Wait = std::function<Result<void>()>;
  /// `now`: of the others, for a guest that asks while it waits.
  using Now = std::function<uint64_t()>;

  GuestClock() = default;
  GuestClock(UniqueFd fd, Now now, Wait wait)
      : fd_(std::move(fd)), now_(std::move(now)), wait_(std::move(wait)) {}

  int fd() const { return fd_.get(); }
  /// The kernel has ended: its connection is closed.
  bool gone() const { return gone_; }
  /// It has begun, and has nothing to do before wanted().
  bool waits() const { return waits_; }
  /// When it wants to run next, kNever if only an interrupt would make it.
  uint64_t wanted() const { return wanted_; }
  /// Its own clock; while it waits not before now().
  uint64_t time() const { return time_; }

  /// Takes the message that has come.
  Result<void> serve();
  /// Lets it run at `time`, on its own until `free_until`. Then it runs, until waits().
  Result<void> run(uint64_t time, uint64_t free_until);
  /// While it runs: it is free no longer than that.
  Result<void> limit(uint64_t free_until);

 private:
  struct Message {
    uint32_t op = 0;
    uint32_t number = 0;
    uint64_t time = 0;
  };
  Result<void> take(const Message& message);
  Result<void> tell(uint32_t op, uint64_t time);
  bool read(Message& message);

  UniqueFd fd_;
  Now now_;
  Wait wait_;
  bool gone_ = false, waits_ = false;
  uint64_t wanted_ = kNever, time_ = 0, free_until_ = 0;
  uint32_t number_ = 0;
};

}  // namespace understudy
