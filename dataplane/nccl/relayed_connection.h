// One of NCCL's connections whose messages control writes and reads: the ring over which ranks
// exchange what one-sided operations need (docs/nccl 3.16). Messages are small, and few.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "dataplane/base/spsc_chain.h"
#include "dataplane/base/spsc_ring.h"
#include "dataplane/nccl/nccl_connection.h"

namespace understudy {

class RelayedConnection final : public Endpoint {
 public:
  /// NCCL's longest is a handle, of 128 bytes.
  static constexpr uint32_t kMostBytes = 256;
  static constexpr uint32_t kSlots = 8;  ///< messages that the real rank may send ahead
  struct Message {
    uint32_t length = 0;
    std::array<uint8_t, kMostBytes> bytes{};
  };

  explicit RelayedConnection(bool real_sends) : real_sends_(real_sends) {}

  // One of the two is told its connection.
  NcclSender& sender() { return sender_; }
  /// `received`: memory of kSlots messages of kMostBytes, which outlives this.
  NcclReceiver& receiver(const uint8_t* received) {
    received_ = received;
    return receiver_;
  }

  // Control's side; each is followed by a wake.
  static constexpr uint64_t kJoin = 0, kMore = 1;  ///< on_wake cookies: it stands; there is news
  void send(const Message& message) {
    to_real_.make_room();
    to_real_.push(message);
  }
  /// False: there is none.
  bool take(Message& message) {
    if (!from_real_.pop(message)) return false;
    taken_.fetch_add(1, std::memory_order_release);
    return true;
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  void grant(Time now);
  void post(Time now);

  const bool real_sends_;
  NcclSender sender_;
  NcclReceiver receiver_;
  const uint8_t* received_ = nullptr;
  SpscChain<Message> to_real_;
  SpscRing<Message> from_real_{kSlots};
  std::array<Message, kSlots> slots_;  ///< under way to the real rank, by number modulo kSlots
  bool joined_ = false, waits_ = false;
  uint64_t posted_ = 0, acknowledged_ = 0, came_ = 0;
  std::atomic<uint64_t> taken_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace understudy
