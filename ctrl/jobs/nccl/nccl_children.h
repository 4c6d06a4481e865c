// The jobs on child communicators of one that real ranks have joined (job.child): which of them a
// communicator is that the real ranks make, its plan and its connections.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/nccl/mistakes.h"
#include "ctrl/jobs/nccl/nccl_links.h"
#include "ctrl/peers/sockets/torch_groups.h"
#include "dataplane/base/result.h"

namespace understudy {

class NcclChildren {
 public:
  /// A line about the job of that number.
  using Say = std::function<void(size_t job, const std::string& line)>;

  /// All outlive this. `parent`: of the configuration's jobs.
  NcclChildren(const Config& config, size_t parent, JobRunner& runner, Say say);

  /// The communicator is that of the first job with its ranks that has none yet, if there is one,
  /// which is planned for what NCCL's search found. Error: it cannot be.
  Result<void> found(const MadeCommunicator& made);
  /// It was found before, whosever it is.
  bool knows(uint32_t communicator) const { return known_.contains(communicator); }
  /// Connections of the job whose communicator it is; null: no job describes it.
  NcclLinks* links(uint32_t communicator);
  /// That job, by its number in the configuration.
  std::optional<size_t> job_of(uint32_t communicator) const;
  /// Numbers of all these jobs, and whether the real ranks have made the communicator of one.
  const std::vector<size_t>& jobs() const { return jobs_; }
  bool is_made(size_t job) const;
  /// How one ended, together with its parent, of which nothing else is known to be wrong: empty if
  /// it has done all.
  std::string how_ended(size_t job) const;

  /// For `understudy status`.
  std::vector<std::string> status() const;

  /// Control's turn: what their real ranks do that they should not.
  void poll(Time now);
  /// What each [[job]] of these says of the split or shrink that makes its children.
  std::vector<RankPartition> splits() const;
  /// They may be joined, those after a communicator that is over too.
  bool ready() const;
  /// The parent's communicator is over, and `next`: another one follows.
  void end(Time now, const std::string& how, bool next);
  /// After that, once nobody is connected any more.
  void forget();

 private:
  struct Child {
    Child(const Config& config, size_t number, JobRunner& runner) : links(config, number, runner) {}
    NcclLinks links;
    NcclMistakes mistakes;
    std::optional<uint32_t> communicator;
    bool unplanned = false;  ///< which was said
  };
  const Child& child(size_t job) const;
  std::string missing(const Child& child) const;

  const Config& config_;
  JobRunner& runner_;
  const Say say_;
  std::vector<size_t> jobs_;
  std::deque<Child> children_;  ///< of these
  std::set<uint32_t> known_;
};

}  // namespace understudy
