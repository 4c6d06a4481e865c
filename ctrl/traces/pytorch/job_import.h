// Execution traces of a job from what PyTorch recorded of its ranks: `understudy workload import`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/traces/pytorch/rank_graph.h"

namespace understudy {

/// Paths. Device traces: none, or one for each host trace, in the same order.
struct RecordedFiles {
  std::vector<std::string> hosts, devices;
};

struct ImportedRank {
  std::string host, device;  ///< files
  RankGraph made;
  uint64_t lost_kernels = 0;
  bool by_number = false;  ///< operations were found by their numbers, not by their names
};

struct ImportedJob {
  std::vector<ImportedRank> ranks;
  /// Communicators of fewer than all ranks, by the names that nodes have; as --comm-groups.
  std::map<uint32_t, std::vector<uint32_t>> groups;
  /// Communicators of which no trace says who is in them; nodes have their names.
  std::vector<std::string> unknown_groups;
  uint32_t job_ranks = 0;  ///< of the recorded job, as the traces say; 0: they do not
};

/// Host traces are put in the order of their ranks where all say of which they are (a record of a
/// communication of all ranks, or the device trace, does); else they are in the order given. One host
/// trace may be of a larger job: all ranks are taken to do the same. Names of communicators are kept if
/// they are numbers above 0, and are numbered from 1 otherwise.
/// Errors name the file: ranks that are missing or come twice, and those of its readers and of
/// rank_graph.h.
Result<ImportedJob> import_job(const RecordedFiles& files);

/// What was read and made, for people.
std::string import_text(const ImportedJob& job);

}  // namespace understudy
