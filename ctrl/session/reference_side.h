// Reference nodes and their jobs in a run whose other real nodes are kernels: the counterpart of
// EmulatedSide, which has the kernels' jobs.
#pragma once

#include <memory>
#include <vector>

#include "ctrl/session/reference_job.h"
#include "ctrl/session/reference_nodes.h"

namespace understudy {

/// What kernels' programs and the emulated nodes beside them have to do.
Config without_reference_jobs(const Config& config);

class ReferenceSide {
 public:
  /// `config` outlives this.
  explicit ReferenceSide(const Config& config) : config_(config), nodes_(config, true) {}

  /// All jobs' plans, before `switched`, which may be null, is entered into a shard.
  Result<void> plan(SwitchedRun* switched);
  /// Connects and starts the jobs. `emulator`: of the shard that has all ports.
  Result<void> open(ShardControl& emulator, bool timeline);

  const ReferenceNodes& nodes() const { return nodes_; }
  bool empty() const { return jobs_.empty(); }
  bool over() const;
  /// Grows while anything is done.
  uint64_t progress() const;
  /// Adds its jobs to those of the kernels in the report, as the configuration lists them.
  void finish(RunReport& report, bool timeline);

 private:
  const Config& config_;
  ReferenceNodes nodes_;
  std::vector<std::unique_ptr<CollectiveSetup>> setups_;
  std::vector<std::unique_ptr<ReferenceJob>> jobs_;
};

}  // namespace understudy
