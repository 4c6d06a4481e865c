// Connects the ranks of a reference node, in its own shard, with a job's emulated ranks and with
// other reference nodes.
#pragma once

#include <memory>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/jobs/emulated_ranks_binding.h"
#include "ctrl/jobs/link_ends.h"
#include "ctrl/shards/shard_control.h"
#include "dataplane/collective/reference_ranks.h"

namespace understudy {

/// How the ranks of a reference node speak to others.
struct NcclWire {
  CtsLayout layout;
  uint32_t queue_pairs = 1;  ///< of a connection, for each device of the end with more of them
  bool split = false;        ///< a message's data go over all of them
  std::optional<FailoverSettings> failover = {};  ///< NCCL's port failover, where it is on

  /// Of a job with join, whose other real ranks are NCCL's.
  static NcclWire of_joined(const Config& config, const JobConfig& job);
  /// Of one without, whose other real ranks are ring_node's: its credits have room for the devices.
  static NcclWire alone(const JobConfig& job);
};

/// The ranks of one job on one of its real nodes, a reference node, with all their memory.
class RanksHost {
 public:
  /// `node`: of the job's real nodes, in their order.
  static Result<std::unique_ptr<RanksHost>> create(const Config& config, const JobConfig& job,
                                                   JobState& state, uint32_t node,
                                                   ShardControl& control,
                                                   const NcclWire& wire = {});
  /// The same, for payload = "exact" with values as those of emulated ranks: others add to them
  /// what is known to their own program only, so that nothing is verified here.
  static Result<std::unique_ptr<RanksHost>> create_beside_programs(const Config& config,
                                                                   const JobConfig& job,
                                                                   JobState& state, uint32_t node,
                                                                   ShardControl& control,
                                                                   const NcclWire& wire = {});

  /// Once all of the job's are there: connects our ends with `emulated`, whose job it is, and
  /// with the other real nodes; those that are null connect by themselves, in a job with join
  /// whenever they like.
  Result<void> connect(EmulatedRanksBinding& emulated,
                       const std::vector<std::unique_ptr<RanksHost>>& all);
  /// One of ours to emulated ranks, which joins later.
  Result<void> connect(uint32_t link, EmulatedRanksBinding& emulated);
  /// Our end of a link, not connected yet.
  const LinkNearEnd& end(uint32_t link) const { return ends_[link].link; }
  /// The same as above, with an end that its owner told us of.
  void connect(uint32_t link, const LinkNearEnd& theirs);
  /// The same, of a program.
  void connect(uint32_t link, LinkFarEnd far);
  bool is_own(uint32_t link) const;

  // Of links to programs in a job with join:

  /// Makes our end or connects it, as a peer of NCCL's wants it.
  Result<EndpointReady> serve(uint32_t link, const EndpointRequest& request);
  /// Its sender has said that it is ready.
  void join(uint32_t link);
  /// Takes its queue pairs away, once all operations are done.
  void close(uint32_t link);
  /// All have joined that the first operation uses.
  bool all_joined() const { return awaited_ == 0; }

  void start() { control_.wake(*ranks_, ReferenceRanks::kStart); }

  /// Positions in CollectiveJob::real.
  const ReferenceRanks::Own& own() const { return own_; }
  const CollectiveProgress& progress() const { return progress_; }
  const std::vector<ControlledPair>& controlled() const { return controlled_; }

 private:
  struct End {
    LinkNearEnd link;
    ExposedRegion region;
    std::unique_ptr<uint8_t[]> staging;
    std::unique_ptr<PortFailover> failover;
    ExposedRegion records;  ///< `failover`, receiver
    std::vector<uint8_t> sent;
    bool connected = false, joined = false, closed = false;
  };

  RanksHost(const Config& config, const JobConfig& job, JobState& state, ReferenceRanks::Own own,
            ShardControl& control, const NcclWire& wire, uint64_t input_seed, bool verifies)
      : config_(config),
        job_(job),
        setup_(*state.setup),
        state_(state.ranks),
        own_(own),
        control_(control),
        wire_(wire),
        layout_(wire_.layout),
        input_seed_(input_seed),
        verifies_(verifies),
        progress_(setup_.job.operations.size()),
        ends_(setup_.job.links.size()) {}
  Result<void> allocate();
  tl::unexpected<Error> no_queue_pair() const;
  Result<void> take_queue_pairs(LinkNearEnd& end, size_t count);
  Result<void> take_failover_of(uint32_t link, const FailoverCounts& counts);
  void connect_failover(uint32_t link, const LinkFarEnd& far, std::vector<Qp*> data);
  /// The first operation uses the link.
  bool is_first(uint32_t link) const {
    return !setup_.job.operations.empty() && setup_.job.messages(0, link) > 0;
  }
  bool is_told() const { return job_.operations == OperationsMode::kTold; }
  uint64_t received_bytes(uint32_t link) const;
  /// Of a link, as our end sees them.
  LinkDevices devices(uint32_t link) const;

  const Config& config_;
  const JobConfig& job_;
  const CollectiveSetup& setup_;
  CollectiveState& state_;
  const ReferenceRanks::Own own_;
  ShardControl& control_;
  const NcclWire wire_;
  const CtsLayout& layout_;
  const uint64_t input_seed_;
  const bool verifies_;
  CollectiveProgress progress_;
  std::unique_ptr<ReferenceRanks> ranks_;
  std::vector<End> ends_;  ///< by link; those of other nodes are empty
  uint32_t awaited_ = 0;   ///< links that the first operation uses and that have yet to join
  std::vector<ControlledPair> controlled_;
};

}  // namespace understudy
