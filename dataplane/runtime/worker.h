// The packet thread in real time: polls ports, drives shards, hands over what is due.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/units.h"
#include "dataplane/engine/shard_interface.h"
#include "dataplane/port/port.h"
#include "dataplane/runtime/clock.h"

namespace understudy {

/// What the loop does when nothing is due: its cost shows in the lateness (design rule 8).
enum class IdlePolicy : uint8_t {
  kSpin,   ///< polls on: exact, takes a whole CPU
  kSleep,  ///< naps of at most 50 us: leaves the CPU to others
};

struct WorkerConfig {
  IdlePolicy idle = IdlePolicy::kSpin;
  /// Time between two polls from which on a gap is written down.
  Duration gap_threshold = Duration::ms(1);
};

/// The loop did not run for this long: the process was stopped, or the CPU was taken away.
struct PollGap {
  Time from;
  Duration length;
};

struct WorkerStats {
  static constexpr size_t kMaxGaps = 64;
  uint64_t loops = 0;
  uint64_t bursts = 0;  ///< receive calls that brought frames
  uint64_t naps = 0;
  PollGap longest;
  uint64_t gaps = 0;                     ///< at or above the threshold, all of them
  std::array<PollGap, kMaxGaps> kept{};  ///< the longest of those

  /// Those of `kept` that are filled, by time.
  std::vector<PollGap> gap_list() const;
  void note_gap(PollGap gap);
};

class Worker {
 public:
  /// A shard and its devices in the order of its ports; all must outlive the worker.
  struct Attachment {
    std::vector<Port*> ports;
    EngineShard* shard = nullptr;
  };

  Worker(const Clock& clock, const WorkerConfig& config,
         const std::vector<Attachment>& attachments);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The loop, on the calling thread, until request_stop(). Frames that are not due by then stay in
  /// their shards.
  void run();
  void request_stop() { stopping_.store(true, std::memory_order_relaxed); }

  /// Once the loop has ended.
  const WorkerStats& stats() const { return stats_; }

 private:
  struct Lane {
    std::vector<Port*> ports;
    std::vector<TxSink*> sinks;  ///< of these
    EngineShard* shard;
    std::vector<Time> polled;  ///< when each device was last asked
    Time served;               ///< the shard's own time
  };
  bool receive(Lane& lane, uint32_t port, Time start);
  bool serve(Lane& lane, Time start);
  Time next_wake() const;

  const Clock& clock_;
  const WorkerConfig config_;
  std::vector<Lane> lanes_;
  WorkerStats stats_;
  std::atomic<bool> stopping_{false};
};

}  // namespace understudy
