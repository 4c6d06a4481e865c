// A real rank's part in a ring all-reduce, on our own requester: what NCCL's kernel and proxies do
// on one GPU (nccl-wire 3.8 to 3.10). The reference node of `simulate` runs it.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "dataplane/node/nccl_connection.h"
#include "dataplane/node/ring_job.h"

namespace understudy {

class RingRank final : public Endpoint {
 public:
  /// Memory of one rank; all of it outlives this object.
  struct Memory {
    std::vector<const uint8_t*>
        received;             ///< per channel: kReceiveSlots messages; null if not exact
    std::span<float> data;    ///< exact: the operation's buffer, in place
    uint64_t input_seed = 0;  ///< of this rank's own contribution
  };
  static constexpr uint32_t kReceiveSlots = RingSchedule::kWindow;  ///< NCCL's 4 MiB buffer

  /// Results hold the time from an operation's entry to its last receive, reduced or copied.
  RingRank(const RingJob& job, RingProgress& progress, const Memory& memory);

  NcclSender& sender(uint32_t channel) { return channels_[channel].sender; }
  NcclReceiver& receiver(uint32_t channel) { return channels_[channel].receiver; }

  static constexpr uint64_t kStart = 0;  ///< on_wake cookie: all connections stand, begin

  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  struct Arrival {
    Time usable;  ///< once the step cost is paid
    uint32_t bytes = 0;
  };
  struct Channel {
    NcclSender sender;
    NcclReceiver receiver;
    size_t operation = 0;
    bool running = false;
    uint64_t base = 0;       ///< messages of all earlier operations
    uint64_t total = 0;      ///< messages of the whole job
    uint32_t step = 0;       ///< position in the operation's sequence, over all its loops
    uint64_t arrived = 0;    ///< messages of all operations that have come; some may be early
    uint32_t processed = 0;  ///< messages ready to send
    uint32_t sent = 0;
    uint32_t acked = 0;
    /// What has come and is not used yet, by message modulo the credits outstanding.
    std::array<Arrival, kReceiveSlots> arrivals{};
  };

  void enter(Time now);
  void advance(Time now, uint32_t c);
  bool use_receive(Time now, uint32_t c, uint32_t m);
  void send_ready(Time now, uint32_t c);
  void finish_channel(Time now, uint32_t c);
  void fill_input(const RingOperation& operation);
  uint64_t wrong_elements(const RingOperation& operation) const;
  const RingSchedule& schedule(uint32_t c) const {
    return job_.operations[operation_].plans[c]->schedule();
  }

  const RingJob& job_;
  RingProgress& progress_;
  Memory memory_;
  size_t operation_ = 0;  ///< all channels work on one operation
  uint32_t channels_left_ = 0;
  std::vector<Channel> channels_;
};

}  // namespace understudy
