// From a job of the configuration to the schedules of its operations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collective_model/schedule/schedule.h"
#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

/// The job's communicator: its nodes in their order, as many ranks on each as `gpus` says. One rank
/// a node talks by the job's NIC, several by all of the nodes' NICs. Channels are those of [nccl],
/// or the job's.
Communicator job_communicator(const Config& config, const JobConfig& job);

/// One operation of the job, of `bytes` as nccl-tests count them.
Operation job_operation(const Config& config, const JobConfig& job, uint64_t bytes);

/// Schedules of one operation.
struct JobSchedule {
  uint64_t bytes = 0;
  Operation operation;
  OperationCut cut;  ///< of send/recv: empty
};

/// Those of all sizes, each with the channels that NCCL's tuner leaves it, and with its choice
/// where algorithm or protocol are "auto". An error names file, line and what NCCL would not carry
/// out.
Result<std::vector<JobSchedule>> job_schedules(const Config& config, const JobConfig& job);

/// The part of `rank` in the operation of size number `size`, of job_schedules(); in all of them
/// together if they are a group.
std::unique_ptr<RankSchedule> rank_part(const Communicator& communicator, const JobConfig& job,
                                        const std::vector<JobSchedule>& schedules, uint32_t size,
                                        uint32_t rank);

}  // namespace understudy
