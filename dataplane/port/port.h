// Room port: where packets come from and go to (DPDK devices, the virtual-time link) and what is
// written down about it (captures).
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/base/units.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

/// One interface of a capture, called by a port for every frame at its hand-over.
class CaptureTap {
 public:
  virtual ~CaptureTap() = default;
  /// `at` is the hand-over to or from the device (the device's own time stamp where it has one),
  /// `scheduled` the modelled departure; never() where no model knows the frame. Copies the bytes
  /// and returns at once.
  virtual void frame(CaptureDirection direction, Time at, Time scheduled,
                     std::span<const uint8_t> bytes) = 0;
};

}  // namespace understudy
