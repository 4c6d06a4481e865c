// All emulated ranks of a ring job, as its one real rank meets them: the predecessor that sends to
// it and the successor that receives from it, driven by the plan.
#pragma once

#include <vector>

#include "dataplane/node/nccl_connection.h"
#include "dataplane/node/ring_job.h"

namespace understudy {

class RingEnvironment final : public Endpoint, public PayloadSource {
 public:
  /// `received`: in exact mode, per channel, the memory the real rank writes to (receive_slots()
  /// messages); otherwise null. All of it outlives this object.
  RingEnvironment(const RingJob& job, RingProgress& progress,
                  const std::vector<const uint8_t*>& received);

  NcclSender& sender(uint32_t channel) { return channels_[channel].sender; }
  NcclReceiver& receiver(uint32_t channel) { return channels_[channel].receiver; }

  /// Messages that must stay readable until what depends on them is acknowledged (exact mode).
  static uint32_t receive_slots(uint32_t ranks) { return 2 * ranks + 8; }

  static constexpr uint64_t kStart = 0;  ///< on_wake cookie: all connections stand, begin

  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;
  void on_transmitted(Time scheduled, Time actual, Qp& qp, uint64_t id) override;
  void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override;

 private:
  enum class WakeKind : uint64_t { kStart = 0, kEnter = 1, kData = 2, kCredit = 3 };
  struct Channel {
    explicit Channel(uint32_t ranks) : run(ranks) {}
    NcclSender sender;
    NcclReceiver receiver;
    PlanRun run;
    size_t operation = 0;
    bool running = false;
    uint64_t base = 0;  ///< messages of all earlier operations
    uint32_t due = 0;   ///< messages whose planned time has come
    uint32_t sent = 0;  ///< messages posted
    uint32_t acked = 0;
    uint32_t received = 0;
    std::vector<Duration> late_sent, late_received;  ///< by message, of this operation
  };

  static uint64_t cookie(WakeKind kind, uint32_t channel, uint32_t message) {
    return static_cast<uint64_t>(kind) << 56 | static_cast<uint64_t>(channel) << 32 | message;
  }
  void begin(Time now, uint32_t c, Time entry);
  void begin_if_credited(Time now, uint32_t c);
  void skip_unused(uint32_t c);
  void prepost_credits(Time now, uint32_t c);
  void pump(Time now, uint32_t c);
  void send_due(Time now, uint32_t c);
  void finish_if_done(Time now, uint32_t c);
  void report_finished();
  void on_data(Time now, uint32_t c, const Received& message);
  Channel* channel_of(const Qp& qp, uint32_t& index, bool& is_sender);
  const RingPlan& plan(uint32_t c) const {
    return *job_.operations[channels_[c].operation].plans[c];
  }

  const RingJob& job_;
  RingProgress& progress_;
  const uint32_t sender_rank_;    ///< the real rank's predecessor
  const uint32_t receiver_rank_;  ///< its successor
  std::vector<const uint8_t*> received_;
  std::vector<Channel> channels_;
};

}  // namespace understudy
