// A job of NCCL's in virtual time: the emulated side as `run` has it (NcclJobs over JobRunner and a
// shard), nodes of reference ranks beside it. They meet over TCP in memory, and
// their packets go over virtual links to the emulator, those of two reference ranks through it; the
// reference ranks' queue pairs are connected with what came over TCP, nothing else. Where nodes are
// kernels, these are the reference ranks', and other real nodes are the emulator's reference nodes,
// as in `simulate`.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ctrl/compile/shard_config.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/nccl/nccl_jobs.h"
#include "ctrl/network/shared_network.h"
#include "ctrl/peers/nccl/bootstrap/unique_id.h"
#include "dataplane/port/capture.h"
#include "dataplane/virtual_time/virtual_loop.h"
#include "tests/rigs/nccl_rank/gin_proxy.h"
#include "tests/rigs/nccl_virtual/memory_peers.h"
#include "tests/rigs/nccl_virtual/reference_node.h"
#include "tests/rigs/nccl_virtual/rma_node.h"
#include "tests/rigs/own_workload.h"

namespace understudy::nccl_rank {

class VirtualJob {
 public:
  struct Options {
    bool lazy = false;  ///< transports are connected where an operation is the first to use them
    uint32_t search_channels = 0;  ///< that the real rank's search finds; 0: half of all
    uint64_t seed = 1;             ///< of the order of TCP's events
    bool whole = false;            ///< bytes come as they were sent
    bool split = false;            ///< a child of all ranks is made before the operations
    bool use_spares = false;       ///< at the end a message goes over each connection without a use
    bool at_once = false;          ///< the programs end when they have all that they need
    uint32_t real_mtu = 0;         ///< of the reference node's NIC; 0: the configuration's
    std::string capture;           ///< path; empty: none
    Duration real_interval;        ///< of the reference ranks' operations, where not the job's
    /// Communicators of the reference ranks, one after another. By each: the operation, from 1 on, in
    /// whose middle they leave it without a word; 0: it is carried out.
    std::vector<size_t> rounds = {0};
    /// The operation, from 1 on, in whose middle the reference ranks' second device fails; 0: none.
    size_t lost_device_in = 0;
    /// What else the reference ranks have in their configuration.
    std::function<void(Config&)> other_config;
    std::function<void(JobConfig&)> mistake;  ///< what else reference ranks take for their job
    std::string feed;                         ///< the same, of records of operations that are fed
    /// What the first node's profiler plugin tells before the first operation of each communicator, as
    /// bytes of its feed: each is of another process, and that the one before has ended comes then.
    std::function<std::vector<uint8_t>(const NcclUniqueId& id)> plugin;
    /// Bytes of that after which it is closed and another one goes on; 0: it tells all.
    size_t plugin_tells = 0;
    bool plugin_breaks_off = false;  ///< its process is killed in the middle of a further record
    /// An ncclCommSplit of all ranks, or an ncclCommShrink, before the first operation. The children
    /// that the configuration's jobs are of carry out these.
    struct Split {
      std::function<int(int rank)> color;  ///< null: ncclCommShrink
      std::function<int(int rank)> key = [](int rank) { return rank; };
      std::vector<int> excluded = {};  ///< of ncclCommShrink
      int of = -1;                     ///< by the ranks of the child that this earlier one made
    };
    std::vector<Split> splits;
    /// What each reference rank does with its RMA proxy after the last operation.
    std::function<Task<>(RealRank& rank, RmaProxy& proxy, RmaAdapter& adapter)> one_sided;
    /// The same with a device communicator of so many contexts.
    std::function<Task<>(RealRank& rank, RmaProxy& proxy, GinProxy& gin)> gin;
    size_t gin_contexts = 2;
    bool described = true;         ///< to the emulator: jobs on children are
    bool children_beside = false;  ///< their operations begin with the first one's, else after them
  };
  /// `config`: one job with join, and those on its children.
  VirtualJob(const Config& config, const Options& options);
  ~VirtualJob();

  /// To the end of the communicator. Returns what did not happen; empty if all is well.
  std::string run();

  /// As the reference ranks have it, to whom all others are emulated.
  const CollectiveSetup& setup() const { return *state_->setup; }
  /// The first one with reference ranks, and all.
  const ReferenceNode& node() const { return *reals_.front()->node; }
  size_t nodes() const { return reals_.size(); }
  const ReferenceNode& node(size_t real) const { return *reals_[real]->node; }
  JobReport report(size_t job = 0) const { return runner_->report(job); }
  /// Of a job on a child, by the configuration's numbers: each of its real nodes.
  std::vector<const CollectiveProgress*> child_progress(size_t job) const;
  /// Of the emulated ranks, then of those on the emulator's reference nodes.
  std::vector<const CollectiveProgress*> played() const { return runner_->progress(0); }
  const std::vector<std::string>& said() const { return said_; }
  /// When the first operation could begin.
  Time joined() const { return joined_; }
  Time now() const { return loop_.now(); }

 private:
  class Control;
  struct Side {
    explicit Side(const ShardConfig& config) : shard(config), control(shard) {}
    Shard shard;
    ShardControl control;
  };
  /// A real node.
  struct Wired {
    Wired(const Config& config, const PortList& its)
        : side(reference_shard(config, its)), ports(its) {}
    Side side;
    PortList ports;
    std::unique_ptr<ShardParticipant> turns;
  };
  /// One with reference ranks.
  struct Real : Wired {
    using Wired::Wired;
    std::unique_ptr<ReferenceNode> node;
  };
  /// The process of one of its ranks.
  struct Program {
    ReferenceNode& node;
    std::unique_ptr<RealRank> rank;
    std::set<Algorithm> connected;  ///< whose transports are
    size_t stage = 0;
  };
  /// A job on a child, as its reference ranks have it.
  struct ChildSide {
    size_t job = 0;  ///< of the configuration's
    std::unique_ptr<JobState> state;
    std::optional<OwnWorkload> workload;
    struct Node {
      NodeId id = 0;
      std::unique_ptr<ReferenceNode> node;
    };
    std::vector<Node> nodes;        ///< its real ones
    uint32_t ready = 0, ranks = 0;  ///< real ranks whose connections stand, and all
  };
  /// One rank's end of one.
  struct ChildEnd {
    nccl_rank::Communicator* comm = nullptr;
    ChildSide* side = nullptr;  ///< null: no job is of it
    ReferenceNode* node = nullptr;
    uint32_t gpu = 0;  ///< among the child's ranks on the node
  };
  std::vector<ShardControl*> add_played();
  void add_reals();
  void play(Real& real, uint32_t number);
  void begin_round();
  void join_wires();
  void join_wires(Wired& real);
  SocketAddress root(RealRank& rank);
  Task<> run_program(Program* program, SocketAddress root);
  Task<> connect_for(Program* program, nccl_rank::Communicator* comm, size_t operation);

  // Of children, in children.cc:
  void add_children();
  /// The first one's ranks that a split puts where this one of them is, in the child's order.
  std::vector<uint32_t> members(size_t split, uint32_t rank) const;
  /// What a rank's job is there, if there is one.
  ChildEnd end_of(size_t split, uint32_t rank);
  Task<> make_children(Program* program, nccl_rank::Communicator* comm,
                       std::vector<ChildEnd>* ends);
  Task<> carry_out(Program* program, ChildEnd end);
  RmaNode& rma_node(const Program& program);
  Task<> use_one_sided(Program* program, nccl_rank::Communicator* comm);
  Task<> use_gin(Program* program, nccl_rank::Communicator* comm);
  void tell();
  /// Until the programs of all have come here.
  Task<> together(Program* program, const char* where);
  std::vector<Link> pairs(const RealRank& rank) const;
  bool over() const;
  bool round_over() const;
  std::string standing() const;

  const Config config_;       ///< the emulator's
  const Config real_config_;  ///< as the reference node sees it
  const JobConfig& job_;
  const Options options_;
  World world_;
  std::unique_ptr<JobState> state_;  ///< the reference ranks'
  std::optional<OwnWorkload> workload_;
  std::deque<ChildSide> children_;
  /// Of communicators that are over: the reference ranks' shards may still speak of them.
  struct Former {
    std::unique_ptr<JobState> state;
    std::vector<std::unique_ptr<ReferenceNode>> nodes;
  };
  std::vector<Former> former_;
  size_t round_ = 0;
  std::deque<OwnWorkload> played_workloads_;  ///< of the emulator's reference nodes, by job
  std::unique_ptr<const understudy::Topology>
      topology_;                            ///< null: a path is the two links of its ends
  std::unique_ptr<SharedNetwork> between_;  ///< the same
  std::optional<Side> emulator_;
  std::vector<std::unique_ptr<Wired>> played_;  ///< the emulator's reference nodes
  MemoryNetwork network_;
  std::unique_ptr<JobRunner> runner_;
  std::unique_ptr<MemoryPeers> peers_;
  std::unique_ptr<FeedPeer> plugin_;
  size_t told_ = 0;  ///< communicators of which a plugin has told
  std::unique_ptr<NcclJobs> jobs_;
  std::deque<RmaNode> rma_nodes_;
  std::deque<RmaProxy> proxies_;
  std::deque<GinProxy> gins_;
  std::vector<std::unique_ptr<Real>> reals_;
  std::deque<Program> programs_;  ///< of all their ranks
  std::unique_ptr<Capture> capture_;
  std::vector<std::unique_ptr<VirtualLink>> wires_;  ///< by port
  std::unique_ptr<ShardParticipant> emulator_turns_;
  std::unique_ptr<Control> control_;
  VirtualLoop loop_;
  std::vector<std::string> said_;
  Time joined_;
};

}  // namespace understudy::nccl_rank
