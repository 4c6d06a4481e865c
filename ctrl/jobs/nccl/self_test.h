// The self-test of a job of NCCL's while it starts: TCP first, then RoCE, between one of its real
// nodes and its emulated ones.
#pragma once

#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/jobs/nccl/reach_test.h"
#include "ctrl/jobs/nccl/roce_test.h"
#include "ctrl/peers/peer_network.h"
#include "ctrl/shards/shard_control.h"
#include "dataplane/collective/collective_job.h"

namespace understudy {

/// See RoceTest::Seams; empty where nobody can ask.
using RoceProbe = decltype(RoceTest::Seams::probe);

class SelfTest {
 public:
  /// `planned`: the job. `control`: of its shard. All outlive this.
  SelfTest(const Config& config, const JobConfig& job, const CollectiveJob& planned, NodeId real,
           PeerNetwork& network, ShardControl& control, RoceProbe probe);

  NodeId real() const { return real_; }
  /// What there is to say. `connected`: queue pairs of the job with that node stand. `carried`: one
  /// of its operations is over.
  std::vector<std::string> poll(Time now, bool connected, bool carried);
  /// A connection of the network has ended; false if it is none of ours.
  bool on_ended(const EndedConnection& ended) { return reach_.on_ended(ended); }
  /// A line for `understudy status`.
  std::string status() const;

 private:
  struct Setup {
    std::string name;  ///< of the real node
    IpAddress target;
    std::vector<ReachTest::Source> sources;
  };
  static Setup setup_of(const Config& config, const JobConfig& job, const CollectiveJob& planned,
                        const NodeConfig& real);
  SelfTest(NodeId real, const Setup& setup, PeerNetwork& network, ShardControl& control,
           RoceProbe probe);

  const NodeId real_;
  ReachTest reach_;
  RoceTest roce_;
};

}  // namespace understudy
