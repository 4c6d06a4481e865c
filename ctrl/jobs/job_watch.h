// What control sees of a job beside real nodes that does not go on, or goes on slowly, in words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/jobs/job_state.h"
#include "ctrl/report/real_pace.h"
#include "dataplane/base/units.h"

namespace understudy {

class JobWatch {
 public:
  /// Has the shard write what it waits for to CollectiveProgress::standing.
  using Ask = std::function<void()>;
  /// Of a run.
  struct Surroundings {
    bool real_time = true;  ///< a real node's pace is looked at
    bool others = false;    ///< RunReport::others
  };
  struct Context {
    const CollectiveSetup& setup;
    const JobState& state;  ///< whose plan the setup is
    Surroundings run;
    const InferenceReport* found = nullptr;  ///< of a job whose operations are not told
    bool listed = true;                      ///< as JobConfig's
  };

  /// Control's turn: sentences that have not been given yet.
  std::vector<std::string> look(Time now, const Context& context, CollectiveProgress& progress,
                                const Ask& ask);
  /// What it stands still for, now; empty: it goes on.
  const std::string& standing() const { return standing_; }

 private:
  static std::string operation_of(const Context& context, uint32_t operation);
  void look_at_pace(const Context& context, const CollectiveProgress& progress,
                    std::vector<std::string>& lines);

  uint64_t moved_ = 0;
  uint32_t finished_ = 0;
  Time since_;          ///< when something moved
  bool asked_ = false;  ///< since then
  unsigned said_ = 0;   ///< times
  std::string standing_;
  RealPace pace_;
  bool slow_ = false;  ///< said
};

/// "operation 2 of 8 (all_reduce ring simple of 65536 B)"
std::string operation_text(const CollectiveSetup& setup, size_t operation);

/// "rank 1 waits for message 3 of 6 of rank 0"
std::string wait_text(const CollectiveSetup& setup, const LinkWait& wait);

}  // namespace understudy
