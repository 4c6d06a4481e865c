// NCCL's port failover and recovery, at one end of a connection over several devices
// (docs/nccl 3.15): which device has failed, which queue pair stands in for one of it, the
// probes that ask the receiver what has come, and the exchange after which a device is used again.
// What is sent again is the business of NcclSender and NcclReceiver.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/nccl/cts_layout.h"
#include "dataplane/node/endpoint.h"

namespace understudy {

/// What NCCL_IB_RESILIENCY_... say, with NCCL's defaults.
struct FailoverSettings {
  bool recovery = false;   ///< ..._PORT_RECOVERY
  bool one_device = true;  ///< a second device that fails is the end (2.30), not only the last one
  uint32_t attempts = 1;   ///< ..._PORT_FAILOVER_MAX_ATTEMPTS: probes after the first one
  Duration probe_delay = Duration::ms(10);      ///< ..._PORT_FAILOVER_PROBE_DELAY
  Duration recovery_delay = Duration::ms(200);  ///< ..._PORT_RECOVERY_START_DELAY
  Duration batch_interval = Duration::ms(500);  ///< ..._ALIVE_MSG_BATCH_INTERVAL
  uint32_t sequence = 5;                        ///< ..._ALIVE_MSG_SEQUENCE_SIZE
  Duration alive_timeout = Duration::s(4);      ///< ..._ALIVE_MSG_TIMEOUT
  Duration ack_timeout = Duration::s(5);        ///< ..._ACK_TIMEOUT
  uint32_t recovery_attempts = 5;               ///< ..._PORT_RECOVERY_ATTEMPTS_MAX
};

/// The receiver's memory in which a sender looks up what has come: of each slot the sizes of several
/// receives in one, then a byte for each queue pair.
struct CompletionRecords {
  static constexpr uint32_t kSlots = 256, kFlagsAt = 32, kFlags = 128;
  static constexpr uint32_t kStride = kFlagsAt + kFlags;
  static constexpr uint32_t kBytes = kSlots * kStride;
};

/// What came of it, of all connections of a job's ranks here; written by the shard.
struct FailoverCounters {
  std::atomic<uint64_t> failed{0};     ///< devices of connections' ends
  std::atomic<uint64_t> probes{0};     ///< READs of completion records
  std::atomic<uint64_t> repeated{0};   ///< parts of messages, and credits, sent again
  std::atomic<uint64_t> recovered{0};  ///< devices that are used again
  std::atomic<uint64_t> lost{0};       ///< devices whose recovery was given up
};

class PortFailover final : public Endpoint {
 public:
  /// Whose messages or credits these are.
  class User {
   public:
    virtual ~User() = default;
    /// What the receiver's record says of message `k`.
    virtual void on_probed(Time now, EndpointHost& host, uint64_t k, const uint8_t* flags) = 0;
    /// As retry() asked for.
    virtual void on_retry(Time now, EndpointHost& host, uint64_t k) = 0;
  };
  struct Setup {
    bool sends = false;
    uint32_t devices = 1;   ///< ours: data queue pair q is on device q % devices
    std::vector<Qp*> data;  ///< of the connection
    std::vector<Qp*>
        probing;  ///< reliable: of a sender one for each device, else as the sender has
    /// Unreliable, by device; behind these some that only the other end has a use for. None without
    /// recovery.
    std::vector<Qp*> recovery;
    FailoverSettings settings;
    /// The endpoint of the data queue pairs: hears kProgress when messages got acknowledged by a
    /// probe, with another status than success when the connection is lost.
    Endpoint* endpoint = nullptr;
    // Of a sender:
    uint64_t records_va = 0;               ///< of the receiver
    std::vector<Rkey> records_rkey;        ///< the same, by probing queue pair
    FailoverCounters* counters = nullptr;  ///< outlives this
  };
  /// on_wake cookie: its queue pairs go away.
  static constexpr uint64_t kStop = uint64_t{3} << 60;
  static constexpr uint64_t kProgress = (uint64_t{1} << 62) - 1;  ///< id of no work request

  /// Before the shard sees it.
  void connect(Setup setup);
  void serve(User& user) { user_ = &user; }
  const Setup& setup() const { return setup_; }

  /// The data queue pair that stands for number `q` now, itself as a rule.
  uint32_t active(uint32_t q) const { return active_[q]; }
  /// A work request of data queue pair `q` failed: all of its device's are replaced. False: that is
  /// the connection's end, as this release and these settings have it.
  bool fail(Time now, uint32_t q, WorkStatus status);
  /// Data queue pair `q` takes no request. One in error never will, of which NCCL hears as of a
  /// request that was flushed: true if another one stands in its place now; where none can, the
  /// connection is lost. False as well where it only has no room.
  bool stands_in(Time now, uint32_t q);
  /// Asks what has come of message `k`, after NCCL's delay.
  void probe(Time now, uint64_t k);
  /// User::on_retry() soon: a send queue was full.
  void retry(Time now, uint64_t k);
  void count_repeated() { add(setup_.counters->repeated); }

  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time now, Qp& qp, const Received& message) override;
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  enum class DeviceState : uint8_t { kGood, kFailed, kRecovering };
  enum class Step : uint8_t { kIdle, kWaits, kAlive, kAcknowledges };
  enum class WakeKind : uint64_t { kProbe, kRetry, kRecovery, kStop };
  /// One device's way back.
  struct Recovery {
    Step step = Step::kIdle;
    uint32_t epoch = 0;  ///< wake-ups of others are stale
    uint32_t attempts = 0;
    uint32_t next = 0;                 ///< number of the next message that says that it lives
    uint32_t in_order = 0;             ///< receiver
    Time last;                         ///< message, or the timeout before
    bool acknowledges = false;         ///< it has said so
    std::array<uint32_t, 16> early{};  ///< numbers that came while it waits
    uint32_t early_count = 0;
  };
  static uint64_t cookie(WakeKind kind, uint64_t what) {
    return static_cast<uint64_t>(kind) << 60 | what;
  }
  static void add(std::atomic<uint64_t>& counter) {
    counter.fetch_add(1, std::memory_order_relaxed);
  }

  void replace(uint32_t device);
  uint32_t good_device() const;
  void post_probe(Time now, uint64_t k);
  void lose(Time now);
  size_t recovered_by(const Qp& qp) const;

  // port_recovery.cc
  void begin_recovery(Time now, uint32_t device);
  void recovery_due(Time now, uint32_t device);
  void wake_recovery(Time at, uint32_t device);
  void send_alive(Time now, uint32_t device);
  void send_acknowledgement(Time now, uint32_t device);
  void alive_came(Time now, uint32_t device, uint32_t number);
  void recovery_came(Time now, uint32_t device, uint32_t number);
  void recovery_sent(uint32_t device, uint64_t id, WorkStatus status);
  bool try_again(uint32_t device);
  void restore_queue_pairs(Time now, uint32_t device);
  void recovered(uint32_t device);
  void give_up(uint32_t device);

  Setup setup_;
  User* user_ = nullptr;
  std::vector<uint8_t> active_;  ///< by data queue pair
  std::vector<DeviceState> states_;
  std::vector<Recovery> recoveries_;
  std::vector<std::array<uint8_t, CompletionRecords::kFlags>> results_;  ///< of probes, by slot
  std::vector<uint8_t> tried_;                                           ///< the same: probes
  bool lost_ = false;
};

}  // namespace understudy
