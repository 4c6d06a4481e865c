// What the emulated side sees of real ranks that do something else than their job lists, in words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "dataplane/base/units.h"

namespace understudy {

class NcclMistakes {
 public:
  /// What the communicator waits for, as lines of a status; empty: nothing.
  using Waiting = std::function<std::vector<std::string>()>;

  /// Control's turn: sentences that have not been given yet. `progress`: the emulated ranks'.
  std::vector<std::string> look(Time now, const CollectiveSetup& setup,
                                const CollectiveProgress& progress, const Waiting& waiting);

 private:
  void look_at_waiting(Time now, const Waiting& waiting, std::vector<std::string>& lines);

  bool odd_ = false, goes_on_ = false;  ///< said
  unsigned waits_ = 0;                  ///< times that it was said
  bool said_ = false;                   ///< of `waited_for_`
  std::vector<std::string> waited_for_;
  Time waited_since_, next_look_;
};

/// How real ranks have left a communicator all of whose operations were not done; empty: they were.
/// `who`: of them who has left, as a sentence names it.
std::string left_early_text(const CollectiveSetup& setup, const CollectiveProgress& progress,
                            const std::string& who);

/// The same of a job that lists no operations and whose feed told `found`: in the middle of one.
std::string left_inside_text(const CollectiveProgress& progress, const InferenceReport& found,
                             const std::string& who);

/// "rank 1 (gpu)"
std::string rank_text(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                      uint32_t rank);

/// Of a link of the first operation that the real rank has not connected, as it has others.
std::string missing_text(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                         uint32_t link);

/// Messages go over connections that no operation of a job uses whose operations are listed.
std::string unplanned_text(const CollectiveSetup& setup);

}  // namespace understudy
