#include "tests/rigs/nccl_rank/verbs/job_values.h"

#include <cstring>
#include <utility>

#include "dataplane/collective/wire_lines.h"

namespace understudy::nccl_rank {

JobValues::JobValues(Settings settings, const RankSchedule& schedule)
    : settings_(std::move(settings)),
      schedule_(schedule),
      values_(schedule, settings_.operation.type, settings_.reduction,
              Pattern(settings_.seeds[settings_.rank], settings_.rank)) {}

void JobValues::receive(uint32_t connection, uint64_t k, const std::byte* bytes) {
  std::vector<uint8_t> data(schedule_.message(connection, k).data);
  const WireLines lines(schedule_.connections()[connection].protocol);
  lines.read(reinterpret_cast<const uint8_t*>(bytes), 0, data);
  values_.take(connection, k, std::move(data));
}

void JobValues::send(uint32_t connection, uint64_t k, std::byte* bytes) const {
  const std::vector<uint8_t> data = values_.made(connection, k);
  const uint32_t wire = schedule_.message(connection, k).wire;
  const WireLines lines(schedule_.connections()[connection].protocol);
  lines.write_all(data, 0, {reinterpret_cast<uint8_t*>(bytes), lines.plain() ? data.size() : wire});
}

uint64_t JobValues::wrong() const {
  const auto all = plain_results(settings_.communicator, {&settings_.operation, 1},
                                 settings_.reduction, settings_.seeds);
  return values_.wrong(all[settings_.rank]);
}

}  // namespace understudy::nccl_rank
