#include "ctrl/schedule/expected_messages.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ctrl/schedule/job_schedule.h"
#include "ctrl/schedule/job_work.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr uint32_t kWideCredits = 20;  ///< NCCL 2.20: entries of its credits' FIFO have 64 bytes

/// Sender, receiver, channel and index of a connection.
using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint8_t>;
using Sizes = std::map<Key, std::vector<uint32_t>>;

class Expected {
 public:
  Expected(const Config& config, const JobConfig& job)
      : config_(config), job_(job), communicator_(job_communicator(config, job)) {}

  Result<void> add_to(std::vector<ExpectedConnection>& out) const {
    const auto schedules = TRY(job_schedules(config_, job_));
    std::vector<Sizes> of_size;
    for (uint32_t size = 0; size < (job_.group ? 1 : schedules.size()); ++size) {
      of_size.push_back(messages(schedules, size));
    }
    Sizes all;
    for (const JobOperation& operation : job_operations(job_)) {
      for (const auto& [key, sizes] : of_size[operation.size]) {
        std::vector<uint32_t>& sum = all[key];
        sum.insert(sum.end(), sizes.begin(), sizes.end());
      }
    }
    for (auto& [key, sizes] : all) {
      const auto& [from, to, channel, index] = key;
      out.push_back({"job " + job_.name + ", " + name_of(from) + " to " + name_of(to) +
                         ", channel " + std::to_string(channel) + (index == 0 ? "" : ", send/recv"),
                     node_of(from), node_of(to), communicator_.nic_of(from),
                     communicator_.nic_of(to), std::move(sizes),
                     job_.nccl.minor < kWideCredits ? 32u : 64u});
    }
    return {};
  }

 private:
  NodeId node_of(uint32_t rank) const { return job_.ranks[communicator_.node_of(rank)]; }
  bool is_real(uint32_t rank) const { return config_.nodes[node_of(rank)].real; }

  std::string name_of(uint32_t rank) const {
    const std::string& node = config_.nodes[node_of(rank)].name;
    if (communicator_.gpus == 1) return node;
    return node + "/gpu" + std::to_string(communicator_.gpu_of(rank));
  }

  /// Of one operation; a connection between two real ranks is its sender's.
  Sizes messages(const std::vector<JobSchedule>& schedules, uint32_t size) const {
    Sizes out;
    for (uint32_t rank = 0; rank < communicator_.ranks(); ++rank) {
      if (!is_real(rank)) continue;
      const auto part = rank_part(communicator_, job_, schedules, size, rank);
      const std::vector<Connection>& connections = part->connections();
      for (uint32_t c = 0; c < connections.size(); ++c) {
        const Connection& connection = connections[c];
        if (!connection.network || connection.messages == 0) continue;
        if (connection.direction == Direction::kReceive && is_real(connection.from)) continue;
        std::vector<uint32_t>& sizes =
            out[{connection.from, connection.to, connection.channel, connection.index}];
        for (uint64_t k = 0; k < connection.messages; ++k) {
          sizes.push_back(part->message(c, k).wire);
        }
      }
    }
    return out;
  }

  const Config& config_;
  const JobConfig& job_;
  const Communicator communicator_;
};

}  // namespace

std::vector<ExpectedConnection> expected_connections(const Config& config,
                                                     std::vector<std::string>* unknown) {
  std::vector<ExpectedConnection> out;
  for (const JobConfig& job : config.jobs) {
    const bool real =
        std::ranges::any_of(job.ranks, [&](NodeId node) { return config.nodes[node].real; });
    if (!real) continue;
    const uint32_t joined = job.join ? job.join->queue_pairs : 1;
    if (std::max(joined, net_ib_environment(config).queue_pairs) > 1 || job.merged_nics > 1) {
      if (unknown != nullptr) {
        unknown->push_back("job \"" + job.name + "\": its connections have several queue pairs");
      }
      continue;
    }
    const auto added = Expected(config, job).add_to(out);
    if (!added && unknown != nullptr) unknown->push_back(added.error().text);
  }
  return out;
}

}  // namespace understudy
