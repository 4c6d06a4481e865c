// Drills that begin once a job has done some operations: their events wait for it.
#pragma once

#include <functional>
#include <vector>

#include "ctrl/compile/scenario.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/report/run_report.h"

namespace understudy {

class HeldDrills {
 public:
  using Schedule = std::function<void(const EventConfig&)>;

  /// Both outlive this. The report has all drills of the configuration.
  HeldDrills(const Scenario& scenario, RunReport& report);

  /// Whether some have not begun.
  bool any() const;
  /// Lets those begin whose job has got so far: their events are scheduled, `lead` from now on.
  void look(const JobRunner& jobs, Time now, Duration lead, const Schedule& schedule);

 private:
  void begin(uint32_t drill, Time start, const Schedule& schedule);

  const Scenario& scenario_;
  RunReport& report_;
  std::vector<uint32_t> waiting_;  ///< positions in Config::drills
};

}  // namespace understudy
