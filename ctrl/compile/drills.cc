#include "ctrl/compile/drills.h"

#include <algorithm>

#include "ctrl/config/kernel_nodes.h"
#include "ctrl/config/read/load.h"
#include "ctrl/report/text.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "dataplane/flows/flow_traffic.h"

namespace understudy {
namespace {

/// Before that nobody who is played here gives up. Nothing: somebody else's program may, or there
/// is nobody who does.
std::optional<Duration> first_error_after(const Scenario& scenario) {
  const Config& config = scenario.config;
  if (scenario.clock == RunClock::kReal || has_kernels(config)) return std::nullopt;
  Duration least = Duration::max();
  if (scenario.real_side) {
    for (const JobConfig& job : config.jobs) {
      const auto all = net_ib_environment(config).retries_of(job.nccl).all();
      least = std::min(least, all.value_or(Duration::max()));
    }
  }
  const FlowSettings& flows = config.queues.flows;
  if (scenario.topology != nullptr && flows.timeout > Duration()) {
    least = std::min(least,
                     flows.timeout * (flows.retries.value_or(FlowSettings::kRetries) + int64_t{1}));
  }
  if (least == Duration::max()) return std::nullopt;
  return least;
}

}  // namespace

Result<void> check_drills(const Scenario& scenario) {
  const Config& config = scenario.config;
  const auto first = first_error_after(scenario);
  for (const DrillConfig& drill : config.drills) {
    const auto refused = [&](const char* key, const std::string& found, const std::string& why) {
      return fail(ConfigError{config.path, drill.line, key, found, why}.text());
    };
    if (drill.after && scenario.clock == RunClock::kVirtual &&
        !has_kernel_ranks(config, config.jobs[drill.after->job])) {
      return refused("drill.after", count_text(drill.after->operations, "operation"),
                     "in virtual time only a kernel's program does them when it likes: give the "
                     "drill's events times of the run");
    }
    if (drill.outcome == DrillOutcome::kSlower && config.jobs.empty()) {
      return refused("drill.slower_by_at_most", decimal_text(100 * drill.slower, 4) + " %",
                     "it needs a [[job]], whose operations are compared");
    }
    const std::string within = duration_text(drill.within);
    if (drill.outcome == DrillOutcome::kRecovers && config.jobs.empty() &&
        scenario.topology == nullptr) {
      return refused("drill.recovers_within", within,
                     "it needs a [[job]] or a [topology]: nobody else sees how long it takes");
    }
    if (drill.outcome != DrillOutcome::kReports || !first) continue;
    const std::string earliest = "nobody gives up before " + duration_text(*first);
    if (drill.until && *drill.until - drill.from < *first) {
      return refused(
          "drill.reports_within", within,
          "it is over after " + duration_text(*drill.until - drill.from) + ", and " + earliest);
    }
    if (drill.within < *first) return refused("drill.reports_within", within, earliest);
  }
  return {};
}

}  // namespace understudy
