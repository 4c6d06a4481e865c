// Connects the queue pairs of a ring job: the environment's side in an emulator shard, and, for the
// reference node, the real rank's side in its own shard.
#pragma once

#include <memory>
#include <vector>

#include "ctrl/build/rail.h"
#include "ctrl/build/ring.h"
#include "ctrl/config/config.h"
#include "ctrl/session/shard_control.h"
#include "dataplane/node/ring_environment.h"
#include "dataplane/node/ring_rank.h"

namespace understudy {

/// One end of one NCCL connection: its queue pair and the memory that the other end writes to.
struct RingNearEnd {
  Qpn qpn = 0;
  uint64_t va = 0;  ///< sender: the credit FIFO; receiver: the data buffer
  Rkey rkey = 0;
};

/// What the far end of a connection is, as its owner told us or as we made it.
struct RingFarEnd {
  Qpn qpn = 0;
  Psn psn;               ///< it will send from here on
  Psn expects;           ///< it expects this from us
  uint64_t fifo_va = 0;  ///< far sender only: where our credits go
  Rkey fifo_rkey = 0;
  uint32_t mtu = 4096;
  uint8_t traffic_class = 0;
};

/// A queue pair under congestion control, as series name it.
struct ControlledPair {
  std::string name;
  const QpControl* control = nullptr;
};

/// Names of all that a job will have, as "ring w2 -> gpu 0"; the last is the channel.
std::vector<std::string> controlled_names(const Config& config, const JobConfig& job);

/// The environment of one job in its shard, with all its memory.
class RingEnvironmentHost {
 public:
  static Result<std::unique_ptr<RingEnvironmentHost>> create(const Config& config,
                                                             const JobConfig& job,
                                                             const RingSetup& setup,
                                                             ShardControl& control);

  /// Makes our end of channel `channel`: the sender to the real rank, or the receiver from it. The
  /// far end is connected afterwards.
  RingNearEnd open(uint32_t channel, bool sender);
  void connect(uint32_t channel, bool sender, const RingFarEnd& far);
  /// All connections stand: the job may begin.
  void start();
  /// Takes the queue pairs away.
  void close();

  const RingProgress& progress() const { return progress_; }
  const std::vector<ControlledPair>& controlled() const { return controlled_; }
  bool all_connected() const { return connected_ == 2 * setup_.job.channels; }

 private:
  struct End {
    RingNearEnd link;
    ExposedRegion region;
    std::vector<uint8_t> staging;  ///< receiver: CTS entries on their way
  };

  RingEnvironmentHost(const Config& config, const JobConfig& job, const RingSetup& setup,
                      ShardControl& control)
      : config_(config),
        job_(job),
        setup_(setup),
        control_(control),
        progress_(setup.job.operations.size()) {}
  Result<void> allocate();
  const NodeConfig& node(uint32_t rank) const { return config_.nodes[job_.ranks[rank]]; }

  const Config& config_;
  const JobConfig& job_;
  const RingSetup& setup_;
  ShardControl& control_;
  RingProgress progress_;
  std::unique_ptr<RingEnvironment> environment_;
  std::vector<End> senders_, receivers_;  ///< by channel
  uint32_t connected_ = 0;
  std::vector<Qpn> qpns_;
  std::vector<ControlledPair> controlled_;
};

/// The real rank of one job on the reference node, with all its memory.
class RingRankHost {
 public:
  /// Also opens and connects both ends with `environment`, whose job it is.
  static Result<std::unique_ptr<RingRankHost>> create(const Config& config, const JobConfig& job,
                                                      const RingSetup& setup, ShardControl& control,
                                                      RingEnvironmentHost& environment);
  void start() { control_.wake(*rank_, RingRank::kStart); }
  const RingProgress& progress() const { return progress_; }
  const std::vector<ControlledPair>& controlled() const { return controlled_; }

 private:
  RingRankHost(ShardControl& control, size_t operations)
      : control_(control), progress_(operations) {}

  ShardControl& control_;
  RingProgress progress_;
  std::unique_ptr<RingRank> rank_;
  std::vector<std::vector<uint8_t>> staging_;
  std::vector<float> data_;
  std::vector<ControlledPair> controlled_;
};

}  // namespace understudy
