#include "ctrl/network/rank_reports.h"

#include <algorithm>

#include "collective_model/predict/time_model.h"
#include "ctrl/schedule/iteration_reports.h"

namespace understudy {
namespace {

std::vector<IterationReport> iteration_reports(const RankJob& job) {
  IterationReports reports;
  for (uint32_t rank = 0; rank < job.communicator.ranks(); ++rank) {
    std::vector<Time> done;
    for (size_t o = 0; o < job.operations.size(); ++o) {
      done.push_back(job.ranks->completion(o, rank));
    }
    reports.add(iterations_of(job.work[rank], done, job.ranks->begun(rank)), job.operations);
  }
  return reports.take();
}

/// By all ranks: in a run that broke off they may not have.
bool is_done(const RankJob& job, uint32_t operation) {
  for (uint32_t rank = 0; rank < job.communicator.ranks(); ++rank) {
    if (job.ranks->completion(operation, rank).is_never()) return false;
  }
  return true;
}

}  // namespace

RankJobReport rank_job_report(const JobConfig& config, const RankJob& job) {
  RankJobReport report;
  report.name = config.name;
  report.collective = name_of(kCollectiveNames, config.collective);
  report.algorithm = name_of(kAlgorithmNames, config.algorithm);
  report.protocol = name_of(kProtocolNames, config.protocol);
  report.type = name_of(kDataTypeNames, config.type);
  report.ranks = job.communicator.ranks();
  report.nodes = job.communicator.nodes;
  report.channels = job.communicator.channels;
  report.element = element_bytes(config.type);
  report.bus_factor = bus_factor(config.collective, report.ranks);
  report.messages = job.messages;
  for (uint32_t i = 0; i < job.operations.size(); ++i) {
    if (!is_done(job, i)) break;
    RankOperationReport operation;
    operation.bytes = job.sizes[job.operations[i].size];
    operation.iteration = job.operations[i].iteration;
    operation.warmup = job.operations[i].warmup;
    operation.start = Time::never();
    Duration sum;
    for (uint32_t rank = 0; rank < report.ranks; ++rank) {
      const Duration took = job.ranks->completion(i, rank) - job.ranks->entry(i, rank);
      operation.start = std::min(operation.start, job.ranks->entry(i, rank));
      operation.longest = std::max(operation.longest, took);
      sum += took;
    }
    operation.mean = sum / report.ranks;
    report.operations.push_back(operation);
  }
  report.per_iteration = operations_per_iteration(config);
  const bool all = report.operations.size() == job.operations.size();
  if (config.iteration.stated() && all) report.iterations = iteration_reports(job);
  return report;
}

}  // namespace understudy
