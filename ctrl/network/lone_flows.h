// A network on which there is nothing but flows, those of [[traffic]] and of jobs of emulated
// ranks: no shard has it, and it is a participant of a run by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctrl/report/flow_report.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/collective/flow_job.h"
#include "dataplane/fabric/network.h"
#include "dataplane/flows/flow_groups.h"
#include "dataplane/virtual_time/virtual_loop.h"

namespace understudy {

class LoneFlows : public Participant {
 public:
  // Participant
  const std::string& name() const override { return name_; }
  Time next_event() const final { return over() ? Time::never() : next(); }

  /// A link becomes another one, or a group of flows stops or goes on, later than now.
  virtual void change(const RateChange& change) = 0;
  virtual void change(const GroupChange& change) = 0;

  /// All flows have ended, but for those that were stopped, and ranks have nothing left to do.
  bool at_rest() const;
  /// And nothing is going to change that.
  bool over() const { return at_rest() && (finished() == flows_ || !is_awaited()); }
  size_t flows() const { return flows_; }
  virtual size_t finished() const = 0;
  /// Flows that have not ended and stand still.
  virtual size_t stopped() const = 0;
  /// When the last thing has happened.
  virtual Time end() const = 0;
  /// The network's queues; null where there are none.
  virtual const Network* network() const = 0;
  /// Whether anything has come in since the last call.
  virtual bool has_moved() = 0;

  /// What has been done in so many seconds of real time, for a person, and which share of all.
  virtual std::string progress(double seconds) const = 0;
  virtual double share_done() const = 0;
  /// What the computation took.
  virtual NamedCounts work() const = 0;

  /// "3 of 4 flows never end", and why so though nothing happens any more.
  std::string unfinished() const;
  virtual std::string why_at_rest(const Graph& graph) const = 0;

 protected:
  LoneFlows(size_t flows, std::vector<FlowJob*> jobs) : flows_(flows), jobs_(std::move(jobs)) {}
  virtual Time next() const = 0;
  /// A group of flows may still be told to go on.
  virtual bool is_awaited() const = 0;
  /// Before the carrier starts, and behind that.
  void attach(FlowCarrier& carrier);
  void start_jobs();
  /// Of the jobs' work, where one can tell; else below 0.
  double jobs_done() const;
  bool has_jobs() const { return !jobs_.empty(); }

 private:
  const std::string name_ = "network";
  const size_t flows_;
  const std::vector<FlowJob*> jobs_;
};

/// Runs until all is over. Error, which begins with `heading`: flows that never end; with the cycle
/// of paused links if it is a deadlock.
Result<void> run_alone(LoneFlows& flows, const Graph& graph, const std::string& heading);

}  // namespace understudy
