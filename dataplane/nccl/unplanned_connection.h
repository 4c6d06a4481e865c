// One of NCCL's connections whose messages no plan knows: the emulated rank grants credits as soon
// as they can be used, and answers each of the real rank's at once with as many bytes as it offers,
// so that NCCL always goes on.
#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/nccl/nccl_connection.h"

namespace understudy {

/// What went over unplanned connections; written by the shard, read by control.
struct UnplannedTraffic {
  std::atomic<uint64_t> messages_sent{0}, bytes_sent{0};
  std::atomic<uint64_t> messages_received{0}, bytes_received{0};
  std::atomic<uint64_t> violations{0};  ///< of the real ranks
  std::atomic<uint64_t> registered{0};  ///< credits of theirs that name registered user memory
  std::atomic<uint64_t> failed{0};      ///< connections whose queue pairs failed
  FailoverCounters failover;            ///< where port failover is on
};

class UnplannedConnection final : public Endpoint {
 public:
  /// Credits that stay granted: one for each step of NCCL's buffers.
  static constexpr uint64_t kAhead = 8;
  /// Bytes that they offer: the longest message there is (NCCL_MAX_NET_SIZE).
  static constexpr uint32_t kCapacity = 1u << 30;

  /// `traffic` outlives this.
  UnplannedConnection(bool real_sends, UnplannedTraffic& traffic)
      : real_sends_(real_sends), traffic_(traffic) {}

  // One of the two is told its connection.
  NcclSender& sender() { return sender_; }
  NcclReceiver& receiver() { return receiver_; }

  static constexpr uint64_t kJoin = 0;  ///< on_wake cookie: the connection stands

  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  void grant(Time now);
  void answer(Time now);

  const bool real_sends_;
  UnplannedTraffic& traffic_;
  NcclSender sender_;
  NcclReceiver receiver_;
  bool joined_ = false, failed_ = false;
  uint64_t sent_ = 0, received_ = 0;
};

}  // namespace understudy
