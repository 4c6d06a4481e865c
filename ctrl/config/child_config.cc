#include "ctrl/config/child_config.h"

#include <algorithm>

#include "ctrl/config/config.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"

namespace understudy {

Result<ChildPlace> child_place(const Config& config, const JobConfig& job,
                               const std::vector<uint32_t>& members) {
  const uint32_t gpus = gpus_per_node(config, job);
  ChildPlace place;
  // Every rank is the first GPU's that the child has of its node, or follows the one before it.
  std::vector<uint32_t> counts;
  const uint32_t first = members.front() % gpus;
  for (size_t i = 0; i < members.size(); ++i) {
    const NodeId node = job.ranks[members[i] / gpus];
    if (i > 0 && members[i] % gpus != 0 && node == place.nodes.back() &&
        members[i] == members[i - 1] + 1) {
      ++counts.back();
      continue;
    }
    if (members[i] % gpus != first || std::ranges::find(place.nodes, node) != place.nodes.end()) {
      return fail("rank " + std::to_string(members[i]) +
                  " is neither the same GPU of another node, nor the next one of its own");
    }
    place.nodes.push_back(node);
    counts.push_back(1);
  }
  const uint32_t each = counts.front();
  const bool whole = each == gpus && first == 0;
  if ((each != 1 && !whole) || std::ranges::any_of(counts, [&](uint32_t n) { return n != each; })) {
    return fail("it has " + std::to_string(each) + " of the " + std::to_string(gpus) +
                " ranks of node " + config.nodes[place.nodes.front()].name +
                ": known are all of each node, or one, of the same GPU");
  }
  place.gpus = each;
  const uint32_t nic = first * used_nics(config, job) / gpus;
  place.nic = each == gpus ? job.nic : job_nic(config, job, nic);
  return place;
}

bool has_relatives(const Config& config, const JobConfig& job) {
  return job.child || std::ranges::any_of(config.jobs, [&](const JobConfig& other) {
           return other.child && config.jobs[other.child->job].name == job.name;
         });
}

}  // namespace understudy
