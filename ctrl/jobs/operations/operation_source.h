// Whoever finds out what the operations of a job are while it runs: control's side of a
// OnlineEmulatedRanks. In virtual time it answers notices at once; in real time they come by a ring
// to control's thread, and its commands go by another one, so that plans are made beside the packet
// path.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collective_model/inference/belief.h"
#include "ctrl/jobs/operations/operation_maker.h"
#include "ctrl/report/run_report.h"
#include "ctrl/schedule/job_work.h"
#include "ctrl/shards/shard_control.h"
#include "dataplane/base/spsc_ring.h"
#include "dataplane/collective/online_emulated_ranks.h"

namespace understudy {

class OperationSource : public OnlineListener {
 public:
  /// `guesses`: it hands over operations that may turn out to be others.
  OperationSource(const Config& config, const JobConfig& job, const Topology* topology,
                  const CollectiveJob& told, bool guesses);

  /// What the job's emulated ranks are to be made with.
  OnlineEmulatedRanks::Settings settings() const;
  /// `control`: of the ranks' shard, in real time; null in virtual time.
  void attach(OnlineEmulatedRanks& ranks, ShardControl* control);

  bool on_notice(Time now, const OnlineNotice& notice) final;
  /// In real time: answers what has come, in control's thread.
  void poll(Time now);

  /// No more will come.
  virtual void end() {}
  /// What was found, once the run is over.
  const InferenceReport& report() const { return report_; }
  // Of a job that lists no operations:

  /// Which kinds were found.
  const std::vector<Kernel>& kinds() const { return kinds_; }
  FoundKind describe(const Kernel& kernel) const;
  /// Of each operation, its place in kinds().
  const std::vector<uint32_t>& kind_of() const { return kind_of_; }
  /// By its plan with every rank emulated, where it follows no other one. Error: the plan's numbers
  /// do not fit together.
  Result<Duration> plan_time(const Kernel& kernel) const { return maker_.modelled(kernel); }

 protected:
  virtual void handle(Time now, const OnlineNotice& notice) = 0;
  /// Notices without which it does.
  virtual bool wants(OnlineNotice::Kind) const { return true; }

  /// Most that real ranks may wait, while nothing comes, for what no guess explains: 1 s, and what
  /// the latest emulated rank takes. Messages that are on their way apart.
  Duration patience() const;

  void command(Time now, const OnlineCommand& command);
  /// Makes the plan of what follows the operations that are concluded and hands it over, as a guess
  /// or as concluded; why it cannot, if so.
  Result<void> install(Time now, const Kernel& kernel, bool sure);
  /// The guess that was handed over last is what the operation is.
  void conclude(const Belief& belief);
  /// Operations that the shard has.
  size_t held() const { return owned_.size(); }
  /// Of the operation that was handed over last.
  uint64_t messages_of_last(uint32_t link) const { return last_shape_->uses[link].messages; }
  uint64_t concluded() const { return report_.operations.size(); }
  /// From now on every credit is answered at once.
  void lose(Time now, const std::string& why);
  bool lost() const { return !report_.lost.empty(); }

  const OperationMaker maker_;
  const CollectiveJob& told_;
  InferenceReport report_;
  const bool guesses_;

 private:
  struct Noticed {
    Time now;
    OnlineNotice notice;
  };

  void answer(Time now, const OnlineNotice& notice);
  bool right(const CollectiveShape& shape, uint64_t number) const;
  Result<std::unique_ptr<OnlineOperation>> take(const Kernel& kernel);
  void keep(OnlineOperation* released);
  void flush();

  const Config& config_;
  const JobConfig& job_;
  const JobWork work_;
  OnlineEmulatedRanks* ranks_ = nullptr;
  ShardControl* control_ = nullptr;
  std::unique_ptr<SpscRing<Noticed>> noticed_;  ///< real time
  std::atomic<bool> overrun_{false};            ///< the shard could not tell something
  std::deque<OnlineCommand> backlog_;           ///< real time: to be sent
  struct Made {
    Kernel kernel;
    std::unique_ptr<OnlineOperation> made;
  };
  std::map<OnlineOperation*, Made> owned_;  ///< that the shard has
  std::deque<Made> finished_;               ///< that may be used again
  Kernel last_;                             ///< that was handed over
  // Of a job that lists no operations:
  std::vector<Kernel> kinds_;
  std::vector<uint32_t> kind_of_;  ///< of operations that are concluded
  const CollectiveShape* last_shape_ = nullptr;
};

}  // namespace understudy
