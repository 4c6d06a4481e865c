// The jobs of a run whose real ranks are NCCL's: which of them a connection belongs to, and when
// each has begun and is over.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/nccl/nccl_job.h"

namespace understudy {

class NcclJobs {
 public:
  /// All outlive this. `probe`: of the self-test.
  NcclJobs(const Config& config, JobRunner& runner, PeerNetwork& network, NcclJob::Say say,
           RoceProbe probe = {})
      : config_(config),
        runner_(runner),
        network_(network),
        say_(std::move(say)),
        probe_(std::move(probe)) {}

  /// Makes those that the configuration has; roots and stores that are ours listen then.
  Result<void> open();
  /// Control's turn.
  void poll(Time now);
  /// What a connection of one of them wants of the data plane (Behaviour::kNccl).
  Result<EndpointReady> endpoint(ConnectionId connection, const EndpointRequest& request);
  /// A connection of the network has ended; false if it is none of theirs.
  bool on_ended(const EndedConnection& ended);
  /// For `understudy status`: lines that begin with their job.
  std::vector<std::string> status() const;

 private:
  struct Entry {
    size_t number = 0;  ///< of the configuration's jobs
    std::unique_ptr<NcclJob> job;
    std::shared_ptr<NcclPlace> place;  ///< where it joins
  };

  const Config& config_;
  JobRunner& runner_;
  PeerNetwork& network_;
  const NcclJob::Say say_;
  const RoceProbe probe_;
  std::vector<Entry> jobs_;
};

}  // namespace understudy
