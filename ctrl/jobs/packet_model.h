// What a job beside a real node would take with all its ranks emulated and nothing else on the
// network, packet by packet: the model of jobs whose messages meet each other, which the plan's
// times, with even shares of every NIC, do not know.
#pragma once

#include "ctrl/jobs/job_state.h"

namespace understudy {

/// Jobs of more messages or parts of these, credits apart, keep the plan's times: each takes some
/// 600 bytes.
inline constexpr uint64_t kMostModelledMessages = 500'000;

/// If the job's inner messages go packet by packet: replaces JobState::modelled and says so there.
/// Knows no plan. Operations are entered as when they are scheduled. Errors: as of
/// build_rank_job and run_alone.
Result<void> model_by_packets(const Config& config, const JobConfig& job, JobState& state);

/// As reports have it.
inline const char* model_name(ModelKind model) {
  return model == ModelKind::kPackets ? "packets" : "plan";
}

}  // namespace understudy
