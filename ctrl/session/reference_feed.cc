#include "ctrl/session/reference_feed.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "ctrl/build/job_schedule.h"
#include "ctrl/peers/feed.h"

namespace understudy {
namespace {

/// NCCL's hash of a communicator, which is never 0.
uint64_t hash_of(const JobConfig& job) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : job.name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash | 1;
}

}  // namespace

Result<std::vector<std::vector<uint8_t>>> reference_feed(const Config& config, const JobConfig& job,
                                                         const CollectiveSetup& setup) {
  const auto schedules = job_schedules(config, job);
  if (!schedules) return tl::unexpected(schedules.error());
  std::vector<std::vector<uint8_t>> pieces;
  std::map<Collective, uint64_t> sequences;
  for (const JobOperation& planned : setup.operations) {
    const JobSchedule& schedule = (*schedules)[planned.size];
    FedOperation fed;
    fed.communicator = hash_of(job);
    fed.operation = schedule.operation;
    fed.operation.channels = static_cast<uint32_t>(schedule.cut.parts.size());
    fed.sequence = sequences[fed.operation.collective]++;
    std::vector<uint8_t>& piece = pieces.emplace_back();
    for (const uint32_t rank : setup.job.real) {
      fed.rank = rank;
      const std::vector<uint8_t> record = record_of(fed);
      piece.insert(piece.end(), record.begin(), record.end());
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
