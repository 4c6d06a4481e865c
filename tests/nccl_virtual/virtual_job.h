// A job of NCCL's in virtual time: the emulated side as `run` has it (NcclJobs over JobRunner and a
// shard), a reference rank beside it. They meet over TCP in memory, and their packets go over a
// virtual link; the reference rank's queue pairs are connected with what came over TCP, nothing
// else.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctrl/session/job_runner.h"
#include "ctrl/session/nccl_jobs.h"
#include "dataplane/app/virtual_loop.h"
#include "dataplane/port/capture.h"
#include "tests/nccl_virtual/memory_peers.h"
#include "tests/nccl_virtual/reference_node.h"

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
    uint32_t real_mtu = 0;         ///< of the reference node's NIC; 0: the configuration's
    std::string capture;           ///< path; empty: none
  };
  /// `config`: one job, with join, one real node and a rank on each.
  VirtualJob(const Config& config, const Options& options);
  ~VirtualJob();

  /// To the end of the communicator. Returns what did not happen; empty if all is well.
  std::string run();

  const CollectiveSetup& setup() const { return *setup_; }
  const ReferenceNode& node() const { return *node_; }
  JobReport report() const { return runner_->report(0); }
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
  void join_wires();
  SocketAddress root();
  Task<> program(SocketAddress root);
  Task<> connect_for(nccl_rank::Communicator* comm, size_t operation);
  std::vector<Link> pairs() const;
  bool over() const;
  std::string standing() const;

  const Config& config_;
  const Config real_config_;  ///< as the reference node sees it
  const JobConfig& job_;
  const Options options_;
  World world_;
  std::unique_ptr<CollectiveSetup> setup_;  ///< the reference rank's
  Side emulator_, reference_;
  MemoryNetwork network_;
  std::unique_ptr<JobRunner> runner_;
  std::unique_ptr<MemoryPeers> peers_;
  std::unique_ptr<NcclJobs> jobs_;
  std::unique_ptr<ReferenceNode> node_;
  std::unique_ptr<RealRank> rank_;
  std::unique_ptr<Capture> capture_;
  std::vector<std::unique_ptr<VirtualLink>> wires_;  ///< by port
  std::unique_ptr<ShardParticipant> emulator_turns_, reference_turns_;
  std::unique_ptr<Control> control_;
  VirtualLoop loop_;
  std::vector<std::string> said_;
  Time joined_;
  bool ended_ = false;
};

}  // namespace understudy::nccl_rank
