#include "dataplane/port/device_clock.h"

namespace understudy {

void DeviceClock::reading(Time now, uint64_t ticks) {
  if (readings_ == 0) {
    first_ = now;
    first_ticks_ = ticks;
  } else if (now - last_ < kApart) {
    return;
  }
  last_ = now;
  last_ticks_ = ticks;
  ++readings_;
}

uint64_t DeviceClock::at(Time time) const {
  // The rate is that of the whole run; what it is off by counts from the last reading on only.
  const __int128 ticks = static_cast<__int128>(last_ticks_ - first_ticks_);
  const __int128 since = (time - last_).ps();
  const __int128 scaled = since * ticks;
  const __int128 whole = (last_ - first_).ps();
  __int128 more = scaled / whole;
  if (scaled < 0 && scaled % whole != 0) --more;
  return last_ticks_ + static_cast<uint64_t>(static_cast<int64_t>(more));
}

}  // namespace understudy
