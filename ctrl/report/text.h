// Quantities as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "dataplane/base/units.h"

namespace understudy {

/// Four significant digits and the unit that suits: "50.30 ms", "1.204 s", "0 s".
std::string duration_text(Duration d);
inline std::string time_text(Time t) { return duration_text(t - Time::zero()); }

/// The largest binary unit that divides it: "64 KiB", "16 MiB", "1500 B".
std::string size_text(uint64_t bytes);

/// "1 frame", "2 frames".
std::string count_text(uint64_t count, const std::string& noun);

/// At most `decimals` decimals, none that are zero: 0.01 is "0.01".
std::string decimal_text(double value, int decimals);

}  // namespace understudy
