#include "ctrl/config/shared_place.h"

#include <algorithm>

namespace understudy {

bool is_same_place(const NcclJoinConfig& one, const NcclJoinConfig& other) {
  const bool file = one.way == NcclJoinConfig::Way::kFile;
  if (file != (other.way == NcclJoinConfig::Way::kFile)) return false;
  return file ? one.file == other.file : one.port == other.port && one.address == other.address;
}

bool may_share_place(const Config& config, const JobConfig& one, const JobConfig& other) {
  if (one.child || other.child) return false;  // they are made of one that is there
  if (!one.join || !other.join || !is_same_place(*one.join, *other.join)) return false;
  if (one.join->joins_once() || other.join->joins_once()) return false;
  if (one.join->has_store()) return false;
  return !one.ranks.empty() && one.ranks == other.ranks && config.nodes[one.ranks.front()].real;
}

bool shares_place(const Config& config, const JobConfig& job) {
  return std::ranges::any_of(config.jobs, [&](const JobConfig& other) {
    return other.name != job.name && may_share_place(config, job, other);
  });
}

}  // namespace understudy
