#include "ctrl/session/job_plan.h"

#include "ctrl/session/packet_model.h"

namespace understudy {

Result<std::unique_ptr<CollectiveSetup>> plan_job(const Config& config, const JobConfig& job,
                                                  bool scheduled, bool inner,
                                                  SwitchedRun* switched) {
  const Topology* topology = switched == nullptr ? nullptr : &switched->topology();
  auto setup = build_collective(config, job, scheduled, topology, inner);
  if (!setup) return setup;
  if (auto model = model_by_packets(config, job, **setup); !model) {
    return fail(model.error().text);
  }
  if (switched == nullptr) return setup;
  if (auto carried = switched->carry(job, **setup); !carried) return fail(carried.error().text);
  return setup;
}

}  // namespace understudy
