// The last stage of a port over several cores: a thread that finishes the packet thread's frames
// and gives them to the device.
#pragma once

#include <cstdint>

#include "dataplane/base/result.h"
#include "dataplane/base/spsc_slots.h"
#include "dataplane/port/dpdk_port.h"
#include "dataplane/port/port.h"

namespace understudy {

class TransmitStage final : public TxSink {
 public:
  /// The port outlives it, and gets frames from nobody else.
  explicit TransmitStage(DpdkPort& port) : port_(port) {}
  /// Error: the port has not enough buffers. To be called before there are two threads.
  Result<void> prepare();
  /// Both threads have ended.
  ~TransmitStage() override;
  TransmitStage(const TransmitStage&) = delete;
  TransmitStage& operator=(const TransmitStage&) = delete;

  // The packet thread
  uint8_t* reserve(uint32_t bytes) override;
  uint8_t* reserve_zeros(uint32_t head, uint32_t zeros, uint32_t tail) override;
  bool finishes(uint8_t* payload, uint32_t bytes, uint32_t crc) override;
  void commit(uint32_t bytes, Time scheduled) override;
  /// Hands over what has been committed.
  void flush();

  // Its own thread
  /// Finishes what has been handed over, as much as the device takes; true if there was something.
  bool take();
  /// Gives it to the device. `now` is read after take(): no frame leaves before it was handed over.
  void send(Time now) { port_.flush(now); }

 private:
  /// With a buffer for the packet thread's next frame there, or the frame itself.
  struct Slot {
    rte_mbuf* buffer = nullptr;
    uint32_t bytes = 0;
    uint32_t payload_bytes = 0, crc = 0;  ///< of the payload that is to be finished ...
    uint8_t* payload = nullptr;           ///< ... null: none is
    Time scheduled;
  };
  /// Half of what the ports with least have.
  static constexpr size_t kSlots = 256;

  Slot* next_slot();

  DpdkPort& port_;
  SpscSlots<Slot> slots_{kSlots};
  size_t committed_ = 0;  ///< not handed over yet
};

}  // namespace understudy
