// Connects the emulated ranks of a job in an emulator shard: their ends of all connections with
// real ranks, and what drives them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/jobs/job_state.h"
#include "ctrl/jobs/link_ends.h"
#include "ctrl/jobs/operations/fed_operations.h"
#include "ctrl/jobs/operations/operation_source.h"
#include "ctrl/peers/peer.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "ctrl/shards/shard_control.h"
#include "dataplane/collective/emulated_ranks.h"
#include "dataplane/collective/online_emulated_ranks.h"

namespace understudy {

/// The emulated ranks of one job in their shard, with all their memory. Links are positions in
/// CollectiveJob::links.
class EmulatedRanksBinding {
 public:
  /// `real_time`: the shard has a thread of its own, and poll() is called. `layout`: what the real
  /// ranks speak.
  static Result<std::unique_ptr<EmulatedRanksBinding>> create(const Config& config,
                                                              const JobConfig& job, JobState& state,
                                                              ShardControl& control, bool real_time,
                                                              const CtsLayout& layout = {});

  // A link is opened, connected, and joins when its sender has said that it is ready; before
  // start() or after it, when the real rank likes. After it is closed it does not come again.

  /// Makes our end of a link with so many queue pairs; without any if there are not so many left.
  /// `further`: of port failover; none without.
  LinkNearEnd open(uint32_t link, uint32_t queue_pairs = 1, const FailoverCounts& further = {});
  void connect(uint32_t link, const LinkFarEnd& far);
  /// Does what open() or connect() does, as a peer of NCCL's wants it.
  Result<EndpointReady> serve(uint32_t link, const EndpointRequest& request);
  void join(uint32_t link);
  void close(uint32_t link);
  /// All links have joined that the first operation uses, if operations are told: NCCL may connect
  /// the others when it first uses them. Else all.
  bool all_joined() const { return joined_ == needed_; }
  /// Where some of these have joined, and others not: one of those.
  std::optional<uint32_t> missing_link() const;
  /// The job may begin: with told operations once all_joined(), else at any time.
  void start();
  /// Takes all queue pairs away.
  void close();
  /// Gives back its memory, before any link is opened; it does nothing any more.
  void give_up();
  /// The real ranks have gone: takes queue pairs, memory and all that was to happen away from the
  /// shard. This, and its state, outlive `then`, which runs in the control's poll().
  void forget(std::function<void()> then);

  const CollectiveProgress& progress() const { return progress_; }
  CollectiveProgress& progress() { return progress_; }
  /// Has CollectiveProgress::standing written soon.
  void look();
  /// In real time: looks for operations that became known, if they are not told.
  void poll(Time now) {
    if (source_ != nullptr) source_->poll(now);
  }
  /// The real ranks do no more.
  void end() {
    if (source_ != nullptr) source_->end();
  }
  /// What was found out, where operations are not listed; else null.
  const InferenceReport* found() const { return source_ == nullptr ? nullptr : &source_->report(); }
  /// Null where operations are told.
  const OperationSource* source() const { return source_.get(); }
  /// The feed of operations = "fed"; else null.
  FedOperations* feed() { return feed_; }
  /// Queue pairs under congestion control that are there.
  const std::vector<ControlledPair>& controlled() const { return controlled_; }
  /// Before start(): keeps when messages did what. Takes 48 bytes for each message of the job. One
  /// whose operations are not told has none.
  void record();
  const CollectiveMoments& moments() const { return moments_; }

 private:
  struct End {
    LinkNearEnd link;
    ExposedRegion region;
    std::unique_ptr<uint8_t[]> staging;  ///< receiver: CTS entries on their way
    std::unique_ptr<PortFailover> failover;
    ExposedRegion records;  ///< `failover`, receiver
    bool connected = false, joined = false, closed = false;
  };

  EmulatedRanksBinding(const Config& config, const JobConfig& job, JobState& state,
                       ShardControl& control, bool real_time, const CtsLayout& layout)
      : config_(config),
        job_(job),
        setup_(*state.setup),
        state_(state.ranks),
        control_(control),
        real_time_(real_time),
        layout_(layout),
        progress_(operations_kept(job, setup_)),
        failover_(net_ib_environment(config).failover_of(job.nccl)),
        ends_(setup_.job.links.size()) {}
  Result<void> allocate();
  uint32_t slots(uint32_t link) const;
  /// The reference node, too.
  bool is_told() const { return !real_time_ && job_.operations == OperationsMode::kTold; }
  uint64_t received_bytes(uint32_t link) const;
  bool is_needed(uint32_t link) const;
  void connect_failover(uint32_t link, const LinkFarEnd& far, std::vector<Qp*> data);
  EmulatedConnections& connections() {
    return online_ ? online_->connections() : planned_->connections();
  }
  /// The reflection of the link's channel, where NCCL itself is the other side; else null.
  Reflection* reflection(const CollectiveConnection& link);
  void wake(uint64_t cookie);

  const Config& config_;
  const JobConfig& job_;
  const CollectiveSetup& setup_;
  CollectiveState& state_;
  ShardControl& control_;
  const bool real_time_;
  const CtsLayout layout_;
  CollectiveProgress progress_;
  const std::optional<FailoverSettings> failover_;  ///< NCCL's port failover, where it is on
  std::unique_ptr<EmulatedRanks> planned_;          ///< the job lists its operations
  // Instead of them, where operations are found out during the run:
  std::unique_ptr<OperationSource> source_;
  FedOperations* feed_ = nullptr;  ///< source_, if it is a feed
  std::unique_ptr<OnlineEmulatedRanks> online_;
  std::map<uint32_t, std::unique_ptr<Reflection>> reflections_;  ///< by channel
  std::vector<End> ends_;                                        ///< by link
  uint32_t needed_ = 0, joined_ = 0;                             ///< links to begin with
  CollectiveMoments moments_;                                    ///< empty: nobody wants them
  std::vector<ControlledPair> controlled_;
};

}  // namespace understudy
