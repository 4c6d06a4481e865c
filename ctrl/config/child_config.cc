#include "ctrl/config/child_config.h"

#include <algorithm>
#include <set>

#include "ctrl/config/config.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"
#include "dataplane/base/try.h"

namespace understudy {

namespace {

/// GPUs of each node of the child, in the order of its ranks.
struct NodeGpus {
  NodeId node;
  std::vector<uint32_t> gpus;
};

Result<std::vector<NodeGpus>> by_node(const JobConfig& job, uint32_t gpus,
                                      const std::vector<uint32_t>& members) {
  std::vector<NodeGpus> all;
  std::set<NodeId> seen;
  for (const uint32_t rank : members) {
    const NodeId node = job.ranks[rank / gpus];
    const uint32_t gpu = rank % gpus;
    if (!all.empty() && all.back().node == node && all.back().gpus.back() < gpu) {
      all.back().gpus.push_back(gpu);
      continue;
    }
    if (!seen.insert(node).second) {
      return fail("rank " + std::to_string(rank) +
                  " does not follow the others of its node: known are children whose ranks come "
                  "node by node, and on each by ascending GPU");
    }
    all.push_back({node, {gpu}});
  }
  return all;
}

std::string gpus_text(const std::vector<uint32_t>& gpus) {
  std::string text = gpus.size() == 1 ? "GPU " : "GPUs ";
  for (size_t i = 0; i < gpus.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == gpus.size() ? " and " : ", ") + std::to_string(gpus[i]);
  }
  return text;
}

/// The NICs next to these GPUs, as a communicator counts them (Communicator::nic_of).
Result<void> find_nics(const Config& config, const JobConfig& job,
                       const std::vector<uint32_t>& gpus, ChildPlace& place) {
  const uint32_t used = used_nics(config, job), all = gpus_per_node(config, job);
  const auto next_to = [&](uint32_t gpu) { return gpu * used / all; };
  std::vector<uint32_t> nics;
  for (const uint32_t gpu : gpus) {
    if (nics.empty() || nics.back() != next_to(gpu)) nics.push_back(next_to(gpu));
  }
  const auto count = static_cast<uint32_t>(nics.size()), each = static_cast<uint32_t>(gpus.size());
  const uint32_t step = count > 1 ? nics[1] - nics[0] : 1;
  for (uint32_t i = 0; i < each; ++i) {
    if (next_to(gpus[i]) == nics[0] + i * count / each * step) continue;
    return fail(
        "it has " + gpus_text(gpus) +
        " of each node: the NICs next to these are not evenly apart, or not of equally many "
        "of them, which is not known");
  }
  place.nic = job_nic(config, job, nics[0]);
  place.nics = count;
  place.nic_stride = count > 1 ? job_nic(config, job, nics[1]) - place.nic : job.merged_nics;
  return {};
}

}  // namespace

Result<ChildPlace> child_place(const Config& config, const JobConfig& job,
                               const std::vector<uint32_t>& members) {
  const auto nodes = TRY(by_node(job, gpus_per_node(config, job), members));
  ChildPlace place;
  for (const NodeGpus& node : nodes) {
    if (node.gpus != nodes.front().gpus) {
      return fail("it has " + gpus_text(nodes.front().gpus) + " of node " +
                  config.nodes[nodes.front().node].name + " and " + gpus_text(node.gpus) +
                  " of node " + config.nodes[node.node].name +
                  ": known are the same GPUs of each node");
    }
    place.nodes.push_back(node.node);
  }
  place.gpus = static_cast<uint32_t>(nodes.front().gpus.size());
  TRY(find_nics(config, job, nodes.front().gpus, place));
  return place;
}

bool has_relatives(const Config& config, const JobConfig& job) {
  return job.child || std::ranges::any_of(config.jobs, [&](const JobConfig& other) {
           return other.child && config.jobs[other.child->job].name == job.name;
         });
}

}  // namespace understudy
