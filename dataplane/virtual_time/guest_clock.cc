#include "dataplane/virtual_time/guest_clock.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/try.h"
#include "dataplane/virtual_time/guest_socket.h"

namespace understudy {
namespace {

// um_timetravel.h: UM_TIMETRAVEL_ACK and so on.
enum Op : uint32_t {
  kAck,
  kStart,
  kRequest,
  kWait,
  kGet,
  kUpdate,
  kRun,
  kFreeUntil,
  kGetTimeOfDay,
};

/// 2023-11-14 22:13:20 UTC, the time of day when a guest begins: its boot is the same each time.
constexpr uint64_t kFirstTimeOfDay = 1'700'000'000'000'000'000;
/// A guest asks for times that far away where it has no timer at all.
constexpr uint64_t kFar = uint64_t{1} << 62;

}  // namespace

bool GuestClock::read(Message& message) {
  if (gone_) return false;
  uint8_t bytes[16];
  if (!read_whole(fd_.get(), bytes)) {
    gone_ = true;
    return false;
  }
  std::memcpy(&message.op, bytes, 4);
  std::memcpy(&message.number, bytes + 4, 4);
  std::memcpy(&message.time, bytes + 8, 8);
  return true;
}

Result<void> GuestClock::serve() {
  Message message;
  if (!read(message)) return {};
  return take(message);
}

Result<void> GuestClock::take(const Message& message) {
  Message answer{kAck, message.number, 0};
  switch (message.op) {
    case kStart:
      break;
    case kRequest:
      wanted_ = message.time >= kFar ? kNever : message.time;
      break;
    case kWait:
      waits_ = true;
      break;
    case kGet:
      answer.time = waits_ ? std::max(time_, now_()) : time_;
      break;
    case kUpdate:
      if (message.time < time_ || message.time > std::max(free_until_, time_)) {
        return fail("moved its clock from " + std::to_string(time_) + " to " +
                    std::to_string(message.time) + " ns, and was free until " +
                    std::to_string(free_until_));
      }
      time_ = message.time;
      break;
    case kGetTimeOfDay:
      answer.time = kFirstTimeOfDay + time_;
      break;
    default:
      return fail("says what this protocol does not have: operation " + std::to_string(message.op));
  }
  uint8_t bytes[16];
  std::memcpy(bytes, &answer.op, 4);
  std::memcpy(bytes + 4, &answer.number, 4);
  std::memcpy(bytes + 8, &answer.time, 8);
  if (!write_whole(fd_.get(), bytes)) gone_ = true;
  return {};
}

/// Waits for the acknowledgement; the guest may say something of its own before it.
Result<void> GuestClock::tell(uint32_t op, uint64_t time) {
  const uint32_t number = ++number_;
  uint8_t bytes[16];
  std::memcpy(bytes, &op, 4);
  std::memcpy(bytes + 4, &number, 4);
  std::memcpy(bytes + 8, &time, 8);
  if (gone_ || !write_whole(fd_.get(), bytes)) {
    gone_ = true;
    return {};
  }
  for (;;) {
    TRY(wait_());
    Message message;
    if (!read(message)) return {};
    if (message.op == kAck) {
      if (message.number == number) return {};
      return fail("acknowledges what it was not told");
    }
    TRY(take(message));
  }
}

Result<void> GuestClock::run(uint64_t time, uint64_t free_until) {
  time_ = std::max(time_, time);
  wanted_ = kNever;
  free_until_ = std::max(free_until, time_);
  if (free_until_ > time_) {
    TRY(tell(kFreeUntil, free_until_));
  }
  waits_ = false;
  return tell(kRun, time_);
}

Result<void> GuestClock::limit(uint64_t free_until) {
  if (free_until >= free_until_) return {};
  free_until_ = std::max(free_until, time_);
  return tell(kFreeUntil, free_until_);
}

}  // namespace understudy
