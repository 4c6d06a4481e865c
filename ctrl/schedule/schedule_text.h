// Schedules as people and programs read them: channels and their parts, and of one rank each
// connection with its messages' sizes, run by run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/schedule/job_schedule.h"

namespace understudy {

/// `count` times the same one or two sizes.
struct SizeRun {
  uint64_t count = 0;
  std::vector<uint64_t> sizes;
  bool operator==(const SizeRun&) const = default;
};
/// The wire sizes of a connection's messages.
std::vector<SizeRun> size_runs(const RankSchedule& schedule, uint32_t connection);

struct ScheduleView {
  std::string job;  ///< name
  Communicator communicator;
  std::vector<std::string> nodes;  ///< names, by position
  std::vector<JobSchedule> schedules;
  uint32_t rank = 0;      ///< whose connections are shown
  bool messages = false;  ///< each of them, with what it waits for
};

std::string schedule_text(const std::vector<ScheduleView>& views);
std::string schedule_json(const std::vector<ScheduleView>& views);

}  // namespace understudy
