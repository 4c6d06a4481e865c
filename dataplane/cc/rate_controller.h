// What the controllers that steer a rate have in common: its bounds, its rounding and the window
// beside it.
#pragma once

#include <cmath>
#include <cstdint>

#include "dataplane/cc/window_rule.h"

namespace understudy {

/// The path that a sender uses, as far as its controller must know it.
struct SenderPath {
  Rate line;                     ///< of the sender's link; finite
  Duration base_rtt;             ///< without queues, of a full packet
  uint32_t packet_bytes = 4096;  ///< of a full packet, as the window counts them
};

/// Rates are whole bit/s between a least rate and the line rate (the least rate is at most the line
/// rate); results of the controller that are not whole are rounded down.
class RateController : public Controller {
 protected:
  RateController(const SenderPath& path, Rate least, const WindowRule& rule)
      : Controller(path.line, rule.at_line(path.line, path.base_rtt)),
        line_(path.line.bps()),
        least_(std::min(std::max<uint64_t>(least.bps(), 1), line_)),
        line_window_(window_),
        variable_window_(rule.variable && window_ != kNoWindow) {}

  uint64_t bps() const { return rate_.bps(); }
  uint64_t line_bps() const { return line_; }

  /// `bps` between the bounds; what is not a number (infinity over infinity) counts as the least.
  uint64_t bounded(double bps) const {
    if (!(bps > static_cast<double>(least_))) return least_;
    if (bps >= static_cast<double>(line_)) return line_;
    return static_cast<uint64_t>(bps);
  }
  uint64_t bounded(uint64_t bps) const { return std::clamp(bps, least_, line_); }

  /// Takes a rate between the bounds.
  void set_rate(uint64_t bps) {
    rate_ = Rate::bits_per_second(bps);
    if (!variable_window_) return;
    const auto scaled = static_cast<unsigned __int128>(line_window_) * bps / line_;
    window_ = std::max<uint64_t>(static_cast<uint64_t>(scaled), 1);
  }

 private:
  uint64_t line_;
  uint64_t least_;
  uint64_t line_window_;
  bool variable_window_;
};

}  // namespace understudy
