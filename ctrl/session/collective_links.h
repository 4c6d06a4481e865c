// Connects the queue pairs of a job beside real nodes: the environment's side in an emulator shard,
// and, for reference nodes, the real ranks' side in each one's own shard.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/build/collective.h"
#include "ctrl/build/rail.h"
#include "ctrl/config/config.h"
#include "ctrl/peers/peer.h"
#include "ctrl/session/fed_operations.h"
#include "ctrl/session/operation_source.h"
#include "ctrl/session/shard_control.h"
#include "dataplane/node/collective_environment.h"
#include "dataplane/node/collective_ranks.h"
#include "dataplane/node/reactive_environment.h"

namespace understudy {

/// One end of one NCCL connection: its queue pairs and the memory that the other end writes to.
struct LinkNearEnd {
  std::vector<Qpn> qpns;
  uint64_t va = 0;  ///< sender: the credit FIFO; receiver: the data buffer
  Rkey rkey = 0;
};

/// The NICs that make up both ends of a connection, NCCL's devices, if they are not the link's.
struct LinkDevices {
  std::vector<uint32_t> near = {}, far = {};  ///< their numbers in the nodes
  std::vector<uint8_t> far_of = {};           ///< the far one of each queue pair, in `far`

  uint32_t near_count() const { return std::max(1u, static_cast<uint32_t>(near.size())); }
  uint32_t near_nic(size_t qp, uint32_t otherwise) const {
    return near.empty() ? otherwise : near[qp % near.size()];
  }
  uint32_t far_nic(size_t qp, uint32_t otherwise) const {
    return far.empty() ? otherwise : far[far_of[qp]];
  }
};

/// What the far end of a connection is, as its owner told us or as we made it.
struct LinkFarEnd {
  std::vector<Qpn> qpns;  ///< as many as ours
  bool split = false;     ///< data of a message go over all of them
  uint32_t parts = 1;     ///< else over so many, which take turns
  LinkDevices devices;
  Psn psn;                ///< it will send from here on
  Psn expects;            ///< it expects this from us
  uint64_t fifo_va = 0;   ///< far sender: where our credits go; else for sizes of several receives
  DeviceRkeys fifo_rkey;  ///< of its devices
  std::optional<uint32_t> tag;  ///< of our credits: else the far rank
  bool checked = false;  ///< far receiver: its credits lie where NCCL's do; what differs is counted
  uint32_t mtu = 4096;
  uint8_t traffic_class = 0;
};

/// A queue pair under congestion control, as series name it.
struct ControlledPair {
  std::string name;
  const QpControl* control = nullptr;
};

/// Names of all that a job will have, as "ring w2 -> gpu 0"; the last is the channel. Empty if it
/// cannot be carried out.
std::vector<std::string> controlled_names(const Config& config, const JobConfig& job);

/// How the ranks of a reference node speak to others.
struct NcclWire {
  CtsLayout layout;
  uint32_t queue_pairs = 1;  ///< of a connection, for each device of the end with more of them
  bool split = false;        ///< a message's data go over all of them
};

/// The environment of one job in its shard, with all its memory. Links are positions in
/// CollectiveJob::links.
class EnvironmentHost {
 public:
  /// `real_time`: the shard has a thread of its own, and poll() is called. `layout`: what the real
  /// ranks speak.
  static Result<std::unique_ptr<EnvironmentHost>> create(const Config& config, const JobConfig& job,
                                                         const CollectiveSetup& setup,
                                                         ShardControl& control, bool real_time,
                                                         const CtsLayout& layout = {});

  /// The link between a real and an emulated rank, if the operations use it. `channel`: of
  /// send/recv (index 1) its place among all that NCCL connects for the two.
  std::optional<uint32_t> find(uint32_t real, uint32_t emulated, uint32_t channel, uint8_t index,
                               bool real_sends) const;
  // A link is opened, connected, and joins when its sender has said that it is ready; before
  // start() or after it, when the real rank likes. After it is closed it does not come again.

  /// Makes our end of a link with so many queue pairs; without any if there are not so many left.
  LinkNearEnd open(uint32_t link, uint32_t queue_pairs = 1);
  void connect(uint32_t link, const LinkFarEnd& far);
  /// The same as open() or connect(), as a peer of NCCL's wants it.
  Result<EndpointReady> serve(uint32_t link, const EndpointRequest& request);
  void join(uint32_t link);
  void close(uint32_t link);
  /// All links have joined that the first operation uses, if operations are told: NCCL may connect
  /// the others when it first uses them. Else all.
  bool all_joined() const { return joined_ == needed_; }
  /// The job may begin: with told operations once all_joined(), else at any time.
  void start();
  /// Takes all queue pairs away.
  void close();
  /// Gives back its memory, before any link is opened; it does nothing any more.
  void give_up();

  const CollectiveProgress& progress() const { return progress_; }
  /// In real time: looks for operations that became known, if they are not told.
  void poll(Time now) {
    if (source_ != nullptr) source_->poll(now);
  }
  /// The real ranks do no more.
  void end() {
    if (source_ != nullptr) source_->end();
  }
  /// Of operations that are not told, else null.
  const InferenceReport* found() const { return source_ == nullptr ? nullptr : &source_->report(); }
  /// Of operations = "fed", else null.
  FedOperations* feed() { return feed_; }
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
    bool connected = false, joined = false, closed = false;
  };

  EnvironmentHost(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                  ShardControl& control, bool real_time, const CtsLayout& layout)
      : config_(config),
        job_(job),
        setup_(setup),
        control_(control),
        real_time_(real_time),
        layout_(layout),
        progress_(setup.job.operations.size()),
        ends_(setup.job.links.size()) {}
  Result<void> allocate();
  uint32_t slots(uint32_t link) const;
  /// The reference node, too.
  bool is_told() const { return !real_time_ && job_.operations == OperationsMode::kTold; }
  uint64_t received_bytes(uint32_t link) const;
  bool is_needed(uint32_t link) const;
  NcclSender& sender(uint32_t link);
  NcclReceiver& receiver(uint32_t link);
  /// Of the link's channel, where NCCL itself is the other side; else null.
  Reflection* reflection(const CollectiveLink& link);
  void wake(uint64_t told, uint64_t reactive);

  const Config& config_;
  const JobConfig& job_;
  const CollectiveSetup& setup_;
  ShardControl& control_;
  const bool real_time_;
  const CtsLayout layout_;
  CollectiveProgress progress_;
  std::unique_ptr<CollectiveEnvironment> environment_;
  // Instead of it, where operations are not told:
  std::unique_ptr<OperationSource> source_;
  FedOperations* feed_ = nullptr;  ///< the same, of a feed
  std::unique_ptr<ReactiveEnvironment> reactive_;
  std::map<uint32_t, std::unique_ptr<Reflection>> reflections_;  ///< by channel
  std::vector<End> ends_;                                        ///< by link
  uint32_t needed_ = 0, joined_ = 0;                             ///< links to begin with
  CollectiveMoments moments_;                                    ///< empty: nobody wants them
  std::vector<ControlledPair> controlled_;
};

/// The ranks of one job on one of its real nodes, a reference node, with all their memory.
class RanksHost {
 public:
  /// `node`: of the job's real nodes, in their order.
  static Result<std::unique_ptr<RanksHost>> create(const Config& config, const JobConfig& job,
                                                   const CollectiveSetup& setup, uint32_t node,
                                                   ShardControl& control,
                                                   const NcclWire& wire = {});

  /// Once all of the job's are there: connects our ends with `environment`, whose job it is, and
  /// with the other real nodes.
  Result<void> connect(EnvironmentHost& environment,
                       const std::vector<std::unique_ptr<RanksHost>>& all);
  /// One of ours to emulated ranks, which joins later.
  Result<void> connect(uint32_t link, EnvironmentHost& environment);
  /// Our end of a link, not connected yet.
  const LinkNearEnd& end(uint32_t link) const { return ends_[link].link; }
  /// The same as above, with an end that its owner told us of.
  void connect(uint32_t link, const LinkNearEnd& theirs);
  bool is_own(uint32_t link) const;
  void start() { control_.wake(*ranks_, CollectiveRanks::kStart); }

  /// Positions in CollectiveJob::real.
  const CollectiveRanks::Own& own() const { return own_; }
  const CollectiveProgress& progress() const { return progress_; }
  const std::vector<ControlledPair>& controlled() const { return controlled_; }

 private:
  struct End {
    LinkNearEnd link;
    ExposedRegion region;
    std::unique_ptr<uint8_t[]> staging;
    std::vector<uint8_t> sent;
  };

  RanksHost(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
            CollectiveRanks::Own own, ShardControl& control, const NcclWire& wire)
      : config_(config),
        job_(job),
        setup_(setup),
        own_(own),
        control_(control),
        wire_(wire),
        layout_(wire_.layout),
        progress_(setup.job.operations.size()),
        ends_(setup.job.links.size()) {}
  Result<void> allocate();
  tl::unexpected<Error> no_queue_pair() const;
  bool is_told() const { return job_.operations == OperationsMode::kTold; }
  uint64_t received_bytes(uint32_t link) const;
  /// Of a link, as our end sees them.
  LinkDevices devices(uint32_t link) const;
  uint32_t parts(uint32_t link) const;

  const Config& config_;
  const JobConfig& job_;
  const CollectiveSetup& setup_;
  const CollectiveRanks::Own own_;
  ShardControl& control_;
  const NcclWire wire_;
  const CtsLayout& layout_;
  CollectiveProgress progress_;
  std::unique_ptr<CollectiveRanks> ranks_;
  std::vector<End> ends_;  ///< by link; those of other nodes are empty
  std::vector<float> data_;
  std::vector<ControlledPair> controlled_;
};

}  // namespace understudy
