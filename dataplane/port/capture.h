// Captures: every frame in and out of the ports, written to one pcapng file. In real time the
// packet path only copies a frame into a ring, and a thread writes the file: a full ring costs a
// frame of the capture (counted in the interface's statistics block), never time. In virtual time
// frames are written at once, so that equal runs give equal bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/port/port.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

struct CaptureOptions {
  std::string path;
  std::string application;              ///< program and version, as it shall stand in the file
  std::vector<std::string> interfaces;  ///< names of the ports
  uint32_t snap_length = 0;             ///< bytes kept of a frame; 0: all
  CaptureEpoch epoch;                   ///< of the run's Time::zero(); zero in virtual time
};

/// A hook for several threads: those of one port over several cores.
class SharedTap final : public CaptureTap {
 public:
  explicit SharedTap(CaptureTap& tap) : tap_(tap) {}
  void frame(CaptureDirection direction, Time at, Time scheduled,
             std::span<const uint8_t> bytes) override {
    const std::lock_guard lock(mutex_);
    tap_.frame(direction, at, scheduled, bytes);
  }
  void begin_sending() override { mutex_.lock(); }
  void end_sending() override { mutex_.unlock(); }

 private:
  CaptureTap& tap_;
  std::recursive_mutex mutex_;
};

class Capture {
 public:
  virtual ~Capture() = default;
  /// The hook of interface `index`. One thread at a time may call it. Valid as long as the capture.
  virtual CaptureTap& tap(size_t index) = 0;
  /// Writes down, with the next frame, that a link changed. Not for the packet path: it may wait
  /// for the file.
  virtual void link_change(const LinkChange& change) = 0;
  /// Frames that the device of interface `index` itself says it has missed so far.
  virtual void device_drops(size_t index, uint64_t count) = 0;
  /// Ends the capture: nobody may use the taps any more. Writes what is outstanding and the
  /// statistics blocks. Reports the first error of the whole capture (a full disk ...), with the
  /// path. Without a call the destructor does the same and drops the error.
  virtual Result<void> close() = 0;
  /// Frames not written so far, over all interfaces.
  virtual uint64_t drops() const = 0;
};

/// For virtual time: frames are written by the caller's thread.
Result<std::unique_ptr<Capture>> open_direct_capture(const CaptureOptions& options);

/// For real time: a thread of its own writes, at least every 50 ms. `ring_bytes` per interface is
/// what can wait for the disk.
Result<std::unique_ptr<Capture>> open_threaded_capture(const CaptureOptions& options,
                                                       size_t ring_bytes = size_t{32} << 20);

}  // namespace understudy
