// The connections of a job's real ranks with those that are played here, as NCCL makes them: the
// job's own, which emulated ranks or a reference node have, and those that no operation of it uses.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/operations/one_sided_links.h"
#include "ctrl/jobs/operations/unplanned_links.h"
#include "ctrl/peers/peer.h"

namespace understudy {

class NcclLinks {
 public:
  /// All outlive this. `number`: of the configuration's jobs, whose communicator is the first one
  /// until bind() says another.
  NcclLinks(const Config& config, size_t number, JobRunner& runner);

  /// The job's communicator, as connectors number it, and its ranks in their order, by the numbers
  /// that connectors give them.
  void bind(uint32_t communicator, const std::vector<uint32_t>& ranks);
  /// Of the configuration's jobs.
  size_t number() const { return number_; }

  /// A connector's ends, by their ranks' numbers in the job whose first communicator it is.
  struct Ends {
    uint32_t here = 0, real = 0;
  };
  /// What one of them wants of the data plane.
  Result<EndpointReady> serve(const Ends& ends, const EndpointRequest& request);
  /// The emulated ranks' side of one-sided operations.
  OneSidedLinks& one_sided();
  const OneSidedLinks* any_one_sided() const { return one_sided_ ? &*one_sided_ : nullptr; }
  Result<NcclHost::MemoryKey> expose(uint32_t rank, const NcclHost::OneSidedMemory& memory);

  /// Its data phase begins. False: no operation of the job uses it.
  bool join(const NcclConnector& connector);
  /// Its queue pairs and memory, made or set aside.
  void give_back(const NcclConnector& connector);
  /// The communicator is over: gives back all that no operation uses.
  void forget();
  /// Of one that operations of the job use: the time of its packets one way; else nothing.
  std::optional<Duration> latency(const NcclConnector& connector) const;

  /// Of connections that no operation uses.
  struct Unplanned {
    uint64_t sent = 0, received = 0;           ///< messages, to real ranks and from them
    uint64_t own = 0;                          ///< of them: in the job's own communicator
    std::map<uint32_t, uint64_t> others = {};  ///< the same: in other ones
    uint64_t violations = 0, registered = 0, failed = 0;
  };
  Unplanned unplanned() const;

 private:
  static bool is_one_sided(const NcclConnector& connector) {
    return connector.index >= kOneSidedRing;
  }
  struct Beside {
    Beside(const Config& config, ShardControl& control, const UnplannedLinks::Settings& settings)
        : control(control), links(config, control, settings) {}
    ShardControl& control;
    UnplannedLinks links;
  };
  const CollectiveSetup& setup() const { return runner_.setup(number_); }
  std::optional<uint32_t> link_of(const NcclConnector& connector) const;
  /// Who has this side of a link: one of the two, or neither if the job has failed to begin.
  struct Planned {
    uint32_t link = 0;  ///< as they see it
    EmulatedRanksBinding* emulated = nullptr;
    RanksHost* reference = nullptr;
  };
  Planned planned(uint32_t link) const;
  UnplannedLinks& beside(uint32_t rank);
  /// The same ends by their numbers in the job.
  Ends own(const Ends& ends, const NcclConnector& connector) const;

  const Config& config_;
  const size_t number_;
  JobRunner& runner_;
  std::optional<OneSidedLinks> one_sided_;
  std::deque<Beside> beside_;  ///< of each shard that has any
  Unplanned former_;           ///< of communicators that are over
  uint32_t communicator_ = 0;
  std::map<uint32_t, uint32_t> ranks_;  ///< by their numbers in connectors; empty: the same
};

}  // namespace understudy
