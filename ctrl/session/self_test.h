// The self-test of a job of NCCL's while it starts: TCP first, then RoCE, between its real node and
// its emulated ones.
#pragma once

#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/peers/peer_network.h"
#include "ctrl/session/reach_test.h"
#include "ctrl/session/roce_test.h"
#include "ctrl/session/shard_control.h"

namespace understudy {

/// See RoceTest::Seams; empty where nobody can ask.
using RoceProbe = decltype(RoceTest::Seams::probe);

class SelfTest {
 public:
  /// `control`: of the job's shard. All outlive this.
  SelfTest(const Config& config, const JobConfig& job, PeerNetwork& network, ShardControl& control,
           RoceProbe probe);

  /// What there is to say. `connected`: queue pairs of the job stand.
  std::vector<std::string> poll(Time now, bool connected);
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
  static Setup setup_of(const Config& config, const JobConfig& job);
  SelfTest(const Setup& setup, PeerNetwork& network, ShardControl& control, RoceProbe probe);

  ReachTest reach_;
  RoceTest roce_;
};

}  // namespace understudy
