// Room port: where packets come from and go to (DPDK devices, the virtual-time link) and what is
// written down about it (captures).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "dataplane/base/units.h"
#include "dataplane/engine/state/io.h"
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
  /// Between the two no other thread's frames are written down: an answer must not stand before
  /// what it answers, which is written down once the device has taken it.
  virtual void begin_sending() {}
  virtual void end_sending() {}
};

/// Frames handed to a shard at once (design rule 5).
inline constexpr size_t kRxBurst = 32;

/// What went through a port, and what did not and why.
struct PortCounters {
  uint64_t rx_frames = 0, rx_bytes = 0;
  uint64_t tx_frames = 0, tx_bytes = 0;  ///< taken by the device
  uint64_t rx_missed = 0;                ///< frames that the device itself reports as lost
  uint64_t rx_unreadable = 0;            ///< scattered frames too large for one buffer, dropped
  uint64_t tx_retried = 0;               ///< flushes at which the device did not take everything
  uint64_t tx_refused = 0;    ///< frames dropped because the device took nothing for 100 ms
  uint64_t tx_link_down = 0;  ///< frames dropped because nobody is connected
  uint64_t tx_no_buffer = 0;  ///< frames the device did not take in time, so no buffer was left
};

/// Frames that a thread of a port's own has taken from the device, and read (StagedPort).
class BurstSource {
 public:
  virtual ~BurstSource() = default;
  /// Those that came next, up to kRxBurst with one time of arrival; they stay valid until the next
  /// call. False: there are none.
  virtual bool next(RxBurst& burst) = 0;
};

/// A device as the loops see it. One thread at a time uses it.
class Port {
 public:
  virtual ~Port() = default;

  virtual const std::string& name() const = 0;
  /// Largest IP packet that may be sent.
  virtual uint32_t mtu() const = 0;
  /// Up to kRxBurst frames that have come in, oldest first. They stay valid until the next call.
  virtual std::span<const std::span<const uint8_t>> rx() = 0;
  /// Who is to be asked instead of rx(); null: nobody.
  virtual BurstSource* source() { return nullptr; }
  /// Where the shard writes. Frames leave at the next flush(); while the device has not taken all
  /// of them, reserve() returns null.
  virtual TxSink& tx() = 0;
  /// Hands committed frames to the device, in order. `now` is when that happens.
  virtual void flush(Time now) = 0;
  /// For the thread that moves packets, or for others once it has ended.
  virtual PortCounters counters() const = 0;

  /// Writes every frame down from now on; null: no more. The tap must outlive the port.
  void set_capture(CaptureTap* tap) { capture_ = tap; }
  CaptureTap* capture() const { return capture_; }

 private:
  CaptureTap* capture_ = nullptr;
};

}  // namespace understudy
