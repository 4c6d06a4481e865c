// Turns what shards, loops and ports counted, and what jobs came to, into the report's values. For
// the end of a run: shards and loops have stopped, or the numbers are snapshots.
#pragma once

#include <functional>
#include <string>

#include "ctrl/config/config.h"
#include "ctrl/peers/ring/ring_messages.h"
#include "ctrl/report/run_report.h"
#include "ctrl/schedule/job_work.h"
#include "dataplane/collective/collective_job.h"
#include "dataplane/engine/state/commands.h"
#include "dataplane/node/node_table.h"
#include "dataplane/runtime/worker.h"

namespace understudy {

/// Whether a job's results are compared element by element where CollectiveProgress is written.
enum class Verified { kNo, kYes };

/// A job's finished operations. `progress` holds those of `config.jobs[job]`, `operations` in their
/// order. `modelled(i)`: planned time of operation i.
JobReport job_report(const Config& config, size_t job, const CollectiveProgress& progress,
                     const std::vector<JobOperation>& operations, Verified verified,
                     const std::function<Duration(size_t)>& modelled);

/// Adds what ends of the job's connections count, where NCCL's port failover is on.
void count_failover(JobReport& report, const FailoverCounters& counters);
/// The same of messages among emulated ranks; null: the plan's times stand for them.
void count_failover(JobReport& report, const InnerMessages* inner);

/// Adds what ring_node said about one size, after job_report(). Of several real ranks' times the
/// longest counts, and each stands in by_node, where `node` is its place in JobReport::real_nodes.
/// A size that the job does not have, or another number of timed iterations, is an error; the
/// report then stays as it was.
Result<void> add_node_result(JobReport& report, const JobConfig& job,
                             const RingResultMessage& result, uint32_t node = 0);

/// Users of congestion control that had queue pairs in a shard. `reference`: the reference node's.
std::vector<SenderReport> sender_reports(const Config& config, const ShardSnapshot& snapshot,
                                         bool reference);

/// A port's counters. `nodes` is the shard's table, whose positions `snapshot.up` and `down` use;
/// links that carried nothing are left out.
PortReport port_report(std::string name, const PortConfig& port, const Config& config,
                       const NodeTable& nodes, const ShardSnapshot& snapshot,
                       const PortCounters& device);

/// What several ports of a shard have in common stands with the first of them: links of other
/// nodes, faults and emulated senders. Takes them out of another one.
void leave_out_shared(PortReport& port);

LoopReport loop_report(const WorkerStats& stats);

}  // namespace understudy
