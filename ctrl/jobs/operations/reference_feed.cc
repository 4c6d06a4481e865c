#include "ctrl/jobs/operations/reference_feed.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <span>

#include "collective_model/schedule/p2p.h"
#include "ctrl/peers/feed.h"
#include "ctrl/schedule/job_schedule.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// NCCL's hash of a communicator, which is never 0.
uint64_t hash_of(const JobConfig& job) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : job.name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash | 1;
}

/// What `rank` tells of an operation between pairs of ranks.
void tell_pairs(const Communicator& communicator, const Operation& operation, uint32_t rank,
                std::vector<FedOperation>& group) {
  FedOperation fed;
  fed.operation.collective = Collective::kSendRecv;
  fed.operation.type = DataType::kInt8;
  for (uint32_t peer = 0; peer < communicator.ranks(); ++peer) {
    fed.peer = peer;
    for (const bool sends : {true, false}) {
      fed.sends = sends;
      const auto bytes = sends ? pair_bytes(communicator, operation, rank, peer)
                               : pair_bytes(communicator, operation, peer, rank);
      if (!bytes) continue;
      fed.operation.count = *bytes;
      group.push_back(fed);
    }
  }
}

}  // namespace

Result<std::vector<std::vector<uint8_t>>> reference_feed(const Config& config, const JobConfig& job,
                                                         const CollectiveSetup& setup) {
  const auto schedules = TRY(job_schedules(config, job));
  const Communicator communicator = job_communicator(config, job);
  std::vector<std::vector<uint8_t>> pieces;
  std::map<Collective, uint64_t> sequences;
  for (const JobOperation& planned : setup.operations) {
    const std::span<const JobSchedule> all(schedules);
    std::vector<FedOperation> collectives;
    for (const JobSchedule& schedule : job.group ? all : all.subspan(planned.size, 1)) {
      if (is_p2p(schedule.operation.collective)) continue;
      FedOperation& fed = collectives.emplace_back();
      fed.operation = schedule.operation;
      fed.operation.channels = static_cast<uint32_t>(schedule.cut.parts.size());
      fed.sequence = sequences[fed.operation.collective]++;
    }
    std::vector<uint8_t>& piece = pieces.emplace_back();
    for (const uint32_t rank : setup.job.real) {
      std::vector<FedOperation> group = collectives;
      if (group.empty()) tell_pairs(communicator, all[planned.size].operation, rank, group);
      for (FedOperation& fed : group) {
        fed.rank = rank;
        fed.communicator = hash_of(job);
        fed.group = static_cast<uint32_t>(pieces.size());
        fed.last = &fed == &group.back();
        const std::vector<uint8_t> record = record_of(fed);
        piece.insert(piece.end(), record.begin(), record.end());
      }
    }
  }
  return pieces;
}

Result<std::vector<std::vector<uint8_t>>> recorded_feed(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(path + ": " + std::strerror(errno));
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return fail(path + ": it cannot be read");
  return std::vector<std::vector<uint8_t>>{std::move(bytes)};
}

}  // namespace understudy
