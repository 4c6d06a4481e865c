// A window beside a rate: how many bytes a sender may have on the way, whatever its rate controller
// says.
#pragma once

#include <algorithm>
#include <cstdint>

#include "dataplane/cc/controller.h"

namespace understudy {

struct WindowRule {
  enum class Kind {
    kNone,   ///< any number
    kBdp,    ///< line rate times base round trip, whole bytes
    kBytes,  ///< `bytes`
  };
  Kind kind = Kind::kNone;
  uint64_t bytes = 0;
  bool variable = false;  ///< scaled by rate / line rate, at least one byte

  /// The window at line rate.
  uint64_t at_line(Rate line, Duration base_rtt) const {
    if (kind == Kind::kNone) return Controller::kNoWindow;
    if (kind == Kind::kBytes) return std::max<uint64_t>(bytes, 1);
    const auto bits_ps = static_cast<unsigned __int128>(line.bps()) *
                         static_cast<uint64_t>(std::max<int64_t>(base_rtt.ps(), 0));
    const auto bdp = bits_ps / Rate::kPsBitsPerByte;
    return static_cast<uint64_t>(std::clamp<unsigned __int128>(bdp, 1, Controller::kNoWindow - 1));
  }
  bool operator==(const WindowRule&) const = default;
};

}  // namespace understudy
