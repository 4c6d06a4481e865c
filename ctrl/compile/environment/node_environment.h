// What NCCL on a real node has to be told for a job: the environment variables, each with its
// reason (docs/nccl 4, 7, appendix H), as a file for the shell that starts the program.
#pragma once

#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "dataplane/base/result.h"

namespace understudy {

struct NodeSetting {
  std::string name;
  std::string value;  ///< as the shell takes it: quoted, or a command's output; empty: not set
  std::string reason;
};

/// Of the job's real node. `job` has a join.
std::vector<NodeSetting> node_settings(const Config& config, const JobConfig& job);

/// To be sourced by a POSIX shell on the real node. It finds the names of interface and RDMA device
/// and the index of the GID by the node's address.
std::string node_environment(const Config& config, const JobConfig& job);

/// The job that is meant: of this name, or the only one with a join.
Result<const JobConfig*> joined_job(const Config& config, const std::string& name);

}  // namespace understudy
