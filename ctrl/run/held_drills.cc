#include "ctrl/run/held_drills.h"

#include <algorithm>

namespace understudy {

HeldDrills::HeldDrills(const Scenario& scenario, RunReport& report)
    : scenario_(scenario), report_(report) {
  const std::vector<DrillConfig>& drills = scenario.config.drills;
  for (uint32_t i = 0; i < drills.size(); ++i) {
    if (drills[i].after) waiting_.push_back(i);
  }
}

bool HeldDrills::any() const { return !waiting_.empty(); }

void HeldDrills::look(const JobRunner& jobs, Time now, Duration lead, const Schedule& schedule) {
  std::erase_if(waiting_, [&](uint32_t drill) {
    const DrillConfig::After& after = *scenario_.config.drills[drill].after;
    const auto progress = jobs.progress(after.job);
    if (progress.empty() || progress.front()->finished < after.operations) return false;
    begin(drill, now + lead, schedule);
    return true;
  });
}

void HeldDrills::begin(uint32_t drill, Time start, const Schedule& schedule) {
  const Duration later = start - Time::zero();
  for (EventConfig event : scenario_.held) {
    if (event.drill != drill) continue;
    event.at += later;
    schedule(event);
  }
  const DrillConfig& config = scenario_.config.drills[drill];
  report_.drills[drill].from = config.from + later;
  if (config.until) report_.drills[drill].until = *config.until + later;
}

}  // namespace understudy
