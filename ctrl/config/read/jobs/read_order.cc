// Keys of [[job]]: when its ranks begin, and after which other jobs.
#include <algorithm>
#include <map>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

/// Why the job's ranks cannot wait, nor be waited for; empty if they can.
std::string why_not_ordered(const JobConfig& job) {
  if (job.entry == EntryMode::kScheduled && job.operations == OperationsMode::kTold) return "";
  return "goes with entry = \"scheduled\" and operations = \"told\" only";
}

/// Jobs on a way from `job` along after that comes back to it; empty: there is none.
std::vector<uint32_t> way_back(const std::vector<JobConfig>& jobs, uint32_t job) {
  std::vector<uint32_t> came_from(jobs.size(), kNoNode), work{job};
  for (size_t i = 0; i < work.size(); ++i) {
    for (const uint32_t former : jobs[work[i]].after) {
      if (came_from[former] != kNoNode) continue;
      came_from[former] = work[i];
      work.push_back(former);
    }
  }
  std::vector<uint32_t> way;
  for (uint32_t at = came_from[job]; at != kNoNode; at = at == job ? kNoNode : came_from[at]) {
    way.push_back(at);
  }
  std::ranges::reverse(way);
  return way;
}

class Orders {
 public:
  Orders(ReadContext& context, const std::vector<JobOrder>& orders)
      : context_(context), jobs_(context.config.jobs), orders_(orders) {}

  void resolve() {
    for (uint32_t j = 0; j < jobs_.size(); ++j) numbers_.try_emplace(jobs_[j].name, j);
    for (uint32_t j = 0; j < jobs_.size(); ++j) {
      for (const Located<std::string>& name : orders_[j].after) add(j, name);
    }
    for (uint32_t j = 0; j < jobs_.size(); ++j) {
      const std::vector<uint32_t> way = way_back(jobs_, j);
      if (!way.empty()) return report_cycle(way);
    }
  }

 private:
  TableReader table(uint32_t job) { return {*orders_[job].toml, "job", context_.errors}; }

  void add(uint32_t j, const Located<std::string>& name) {
    const auto it = numbers_.find(name.value);
    if (it == numbers_.end()) {
      std::vector<std::string_view> names;
      for (const JobConfig& job : jobs_) names.push_back(job.name);
      return table(j).unknown_word(name, "after", names);
    }
    const JobConfig& former = jobs_[it->second];
    std::string why;
    if (std::ranges::find(jobs_[j].after, it->second) != jobs_[j].after.end()) {
      why = "this job is named twice";
    } else if (!why_not_ordered(jobs_[j]).empty()) {
      why = why_not_ordered(jobs_[j]);
    } else if (!why_not_ordered(former).empty()) {
      why =
          why_not_ordered(former) + ", of the job in line " + std::to_string(former.line) + " too";
    }
    if (!why.empty()) return table(j).error(name.line, "after", quoted(name.value), why);
    jobs_[j].after.push_back(it->second);
  }

  void report_cycle(const std::vector<uint32_t>& way) {
    std::string text = "jobs wait for each other: ";
    for (const uint32_t job : way) {
      text += quoted(jobs_[job].name) + " (line " + std::to_string(jobs_[job].line) + ") after ";
    }
    text += quoted(jobs_[way.front()].name);
    table(way.front())
        .error(orders_[way.front()].after.front().line, "after", "a cycle", std::move(text));
  }

  ReadContext& context_;
  std::vector<JobConfig>& jobs_;
  const std::vector<JobOrder>& orders_;
  std::map<std::string, uint32_t> numbers_;
};

}  // namespace

JobOrder read_order(const TomlNode& toml, TableReader& table, JobConfig& job) {
  if (const auto start = table.duration("start")) {
    job.start = Time::zero() + start->value;
    const std::string why = why_not_ordered(job);
    if (start->value != Duration() && !why.empty()) {
      table.error(start->line, "start", table.any("start")->describe(), why);
    }
  }
  return {&toml, table.one_or_more("after")};
}

void resolve_orders(ReadContext& context, const std::vector<JobOrder>& orders) {
  Orders(context, orders).resolve();
}

}  // namespace understudy
