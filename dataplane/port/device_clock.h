// The clock of a network card against the run's: two readings give its rate, later ones keep it. A
// card counts in ticks of its own, of which it tells no frequency.
#pragma once

#include <cstdint>

#include "dataplane/base/units.h"

namespace understudy {

class DeviceClock {
 public:
  /// The first two readings have to be so far apart, the others should be no closer.
  static constexpr Duration kApart = Duration::ms(20);

  /// The card's clock stood at `ticks` at `now`. Times do not go back.
  void reading(Time now, uint64_t ticks);
  /// Whether a new reading is due.
  bool wants_reading(Time now) const { return readings_ == 0 || now - last_ >= kApart; }
  /// There is a rate: at() can be asked.
  bool known() const { return readings_ >= 2; }
  /// Where it will stand at `time`, or has stood; the nearest tick before.
  uint64_t at(Time time) const;

 private:
  uint64_t readings_ = 0;
  Time first_, last_;
  uint64_t first_ticks_ = 0, last_ticks_ = 0;
};

}  // namespace understudy
