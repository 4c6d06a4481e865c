// Reference nodes and their jobs in a run in virtual time: the counterpart of EmulatedSide, which
// has the jobs of kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ctrl/jobs/reference_job.h"
#include "ctrl/run/emulator.h"
#include "ctrl/run/reference_nodes.h"

namespace understudy {

class ReferenceSide {
 public:
  /// Both outlive this.
  ReferenceSide(const Config& config, Emulator& emulator)
      : config_(config),
        emulator_(emulator),
        nodes_(config, emulator.ports(), emulator.sides().size() == 1) {}

  /// Connects and starts the jobs. `feed`: file of records of a job whose operations are fed;
  /// empty: what the reference node does.
  Result<void> open(const std::string& feed, bool timeline);

  const ReferenceNodes& nodes() const { return nodes_; }
  bool empty() const { return jobs_.empty(); }
  bool over() const;
  /// Grows while anything is done.
  uint64_t progress() const;
  /// Queue pairs under congestion control, job by job.
  std::vector<const std::vector<ControlledPair>*> controlled() const;
  /// Its jobs into the report, where the configuration lists them. Nothing runs any more.
  void finish(RunReport& report, bool timeline);

 private:
  const Config& config_;
  Emulator& emulator_;
  ReferenceNodes nodes_;
  std::vector<std::unique_ptr<ReferenceJob>> jobs_;
  std::vector<size_t> numbers_;  ///< of jobs_, in the configuration
};

}  // namespace understudy
