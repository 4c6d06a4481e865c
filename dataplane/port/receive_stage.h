// The first stage of a port over several cores: a thread that takes frames from the device, reads
// their headers and verifies their ICRCs, and hands them on to the packet thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "dataplane/base/spsc_slots.h"
#include "dataplane/port/dpdk_port.h"
#include "dataplane/port/port.h"

namespace understudy {

class ReceiveStage final : public BurstSource {
 public:
  /// The port outlives it, and is asked for frames by nobody else.
  ReceiveStage(DpdkPort& port, bool verify_icrc) : port_(port), verify_(verify_icrc) {}
  /// Both threads have ended.
  ~ReceiveStage() override;
  ReceiveStage(const ReceiveStage&) = delete;
  ReceiveStage& operator=(const ReceiveStage&) = delete;

  // Its own thread
  /// Takes frames from the device; false if none came, or the packet thread has too many to do.
  bool receive();
  /// Reads and hands on what receive() took; times as in RxBurst.
  void hand_on(Time at, Duration uncertainty);

  // The packet thread
  bool next(RxBurst& burst) override;

 private:
  struct Slot {
    rte_mbuf* buffer = nullptr;
    std::span<const uint8_t> frame;
    Time at;
    Duration uncertainty;
    ReadFrame read;
  };
  /// Few, so that they stay in the caches of both cores; more wait in the device's ring.
  static constexpr size_t kSlots = 256;
  /// Frames read before the packet thread hears of them.
  static constexpr size_t kTogether = 8;

  void free_buffers();

  DpdkPort& port_;
  const bool verify_;
  std::array<rte_mbuf*, kRxBurst> buffers_{};
  uint32_t received_ = 0;
  IcrcMemory icrc_memory_;
  size_t freed_ = 0;  ///< slots whose buffers the device has again
  SpscSlots<Slot> slots_{kSlots};

  // The packet thread's
  alignas(64) std::array<std::span<const uint8_t>, kRxBurst> frames_;
  std::array<const ReadFrame*, kRxBurst> read_{};
  size_t given_ = 0;  ///< frames of the last burst, which it still uses
};

}  // namespace understudy
