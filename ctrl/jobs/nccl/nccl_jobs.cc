#include "ctrl/jobs/nccl/nccl_jobs.h"

#include <sys/resource.h>

#include "ctrl/config/shared_place.h"

namespace understudy {
namespace {

/// A rank has some sockets, and there may be thousands of ranks.
void allow_many_files() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<void> NcclJobs::open() {
  for (size_t j = 0; j < config_.jobs.size(); ++j) {
    const JobConfig& job = config_.jobs[j];
    if (!job.join || job.child || !runner_.has(j)) continue;
    allow_many_files();
    auto place = std::make_shared<NcclPlace>();
    for (const Entry& other : jobs_) {
      if (is_same_place(*config_.jobs[other.number].join, *job.join)) place = other.place;
    }
    jobs_.push_back(
        {j, std::make_unique<NcclJob>(config_, j, runner_, network_, say_, probe_, place), place});
    if (auto opened = jobs_.back().job->open(); !opened) {
      return fail("job \"" + job.name + "\": " + opened.error().text);
    }
  }
  return {};
}

void NcclJobs::poll(Time now) {
  for (Entry& entry : jobs_) {
    entry.job->poll(now);
    if (entry.job->begun()) runner_.begun(entry.number);
    if (entry.job->over()) runner_.ended(entry.number, now, entry.job->failure());
    const NcclChildren& children = entry.job->children();
    for (const size_t child : children.jobs()) {
      if (children.is_made(child)) runner_.begun(child);
      if (!entry.job->over() || runner_.has_ended(child)) continue;
      const std::string& why = entry.job->failure();
      runner_.ended(child, now, why.empty() ? children.how_ended(child) : why);
    }
  }
}

Result<EndpointReady> NcclJobs::endpoint(ConnectionId connection, const EndpointRequest& request) {
  for (Entry& entry : jobs_) {
    if (entry.job->owns(connection)) return entry.job->endpoint(request);
  }
  return fail("its job is over");
}

bool NcclJobs::on_ended(const EndedConnection& ended) {
  for (Entry& entry : jobs_) {
    if (entry.job->on_ended(ended)) return true;
  }
  return false;
}

std::vector<std::string> NcclJobs::status() const {
  std::vector<std::string> lines;
  for (const Entry& entry : jobs_) {
    for (const std::string& line : entry.job->status()) {
      lines.push_back("job \"" + config_.jobs[entry.number].name + "\": " + line);
    }
  }
  return lines;
}

}  // namespace understudy
