#include "ctrl/compare/real_comparison.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ctrl/compare/all_real.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/report/text.h"
#include "ctrl/run/simulate.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

Result<RunReport> run(const Config& config,
                      const std::function<void(const std::string&)>& progress) {
  const auto scenario = TRY(compile_scenario({config}, RunClock::kVirtual));
  SimulateOptions options;
  options.progress = progress;
  return simulate(scenario, options);
}

/// Position of a real node among those of a report; one alone is not listed there.
size_t place_of(const JobReport& job, const std::string& node) {
  const auto at = std::ranges::find(job.real_nodes, node);
  return at == job.real_nodes.end() ? 0 : static_cast<size_t>(at - job.real_nodes.begin());
}

/// What an operation took on that node.
Duration own_time(const CollectiveReport& c, size_t place) {
  return place < c.by_node.size() ? c.by_node[place] : c.node_reported.value_or(c.measured);
}

/// And when it entered.
Time own_entry(const CollectiveReport& c, size_t place) {
  return place < c.entry_by_node.size() ? c.entry_by_node[place] : c.entry;
}

/// Iterations of one kind, in order.
struct Kind {
  uint64_t bytes = 0;
  std::vector<Time> begins;
  double own = 0;  ///< us, sum of own_time()

  /// From the real node's entry to its next one, if iterations follow each other as fast as they can;
  /// with a period, or of a single one, from its entry until it was done.
  double mean(bool by_period) const {
    const auto count = static_cast<double>(begins.size());
    if (by_period || begins.size() < 2) return own / count;
    return (begins.back() - begins.front()).microseconds() / (count - 1);
  }
  /// A rank that sends only may be done at once, and enter all of them.
  bool ahead() const { return begins.size() > 1 && begins.back() == begins.front(); }
};

/// By size; of jobs whose iterations are operations of all sizes the one kind 0.
std::map<uint32_t, Kind> kinds_of(const JobReport& report, const JobConfig& job,
                                  const std::string& node) {
  std::map<uint32_t, Kind> kinds;
  const size_t place = place_of(report, node);
  for (const CollectiveReport& c : report.collectives) {
    if (c.warmup) continue;
    Kind& kind = kinds[job.iteration.whole ? 0 : c.size_index];
    kind.own += own_time(c, place).microseconds();
    if (job.iteration.whole && c.size_index != 0) continue;
    kind.begins.push_back(own_entry(c, place));
    kind.bytes = job.iteration.whole
                     ? std::accumulate(job.sizes.begin(), job.sizes.end(), uint64_t{0})
                     : c.bytes;
  }
  return kinds;
}

const JobReport* report_of(const RunReport& report, const std::string& job) {
  const auto it = std::ranges::find(report.jobs, job, &JobReport::name);
  return it == report.jobs.end() ? nullptr : &*it;
}

void add_wrong(std::vector<std::string>& wrong, const std::string& run, const RunReport& report) {
  if (report.verdict.faithful || report.verdict.not_judged) return;
  for (const std::string& reason : report.verdict.reasons) wrong.push_back(run + ": " + reason);
}

std::string way_of(const JobReport& report, const JobConfig& job) {
  std::string way = report.collective;
  if (!report.algorithm.empty()) way += ", " + report.algorithm + ", " + report.protocol;
  way += ", " + std::to_string(job.ranks.size() * report.gpus) + " ranks";
  if (job.channels > 1) way += ", " + std::to_string(job.channels) + " channels";
  return way;
}

/// Operations of which one run has more than the other are left out, and stand in `wrong`.
RealPart part_of(const JobConfig& job, const std::string& node, const JobReport& all,
                 const JobReport& emulated, std::vector<std::string>& wrong) {
  RealPart part{job.name, way_of(emulated, job), emulated.not_judged, {}};
  const bool by_period = job.period > Duration();
  const auto with_all = kinds_of(all, job, node), with_some = kinds_of(emulated, job, node);
  const auto say = [&](uint64_t bytes, size_t of_all, size_t of_some) {
    wrong.push_back("job \"" + job.name + "\" of " + size_text(bytes) + ": " +
                    count_text(of_all, "iteration") + " with all nodes real, " +
                    std::to_string(of_some) + " beside emulated ones");
  };
  for (const auto& [number, kind] : with_some) {
    if (!with_all.contains(number)) say(kind.bytes, 0, kind.begins.size());
  }
  for (const auto& [number, kind] : with_all) {
    const auto other = with_some.find(number);
    const size_t count = other == with_some.end() ? 0 : other->second.begins.size();
    if (count != kind.begins.size()) {
      say(kind.bytes, kind.begins.size(), count);
      continue;
    }
    if (!by_period && (kind.ahead() || other->second.ahead())) {
      wrong.push_back("job \"" + job.name + "\" of " + size_text(kind.bytes) + ": " + node +
                      " only sends and is ahead of all others, so its times say nothing of theirs; "
                      "give the job another root");
      continue;
    }
    part.rows.push_back({kind.bytes, job.iteration.whole, kind.mean(by_period),
                         other->second.mean(by_period), kind.begins.size()});
  }
  return part;
}

}  // namespace

Result<RealComparison> compare_real(const Config& config,
                                    const std::function<void(const std::string&)>& progress) {
  if (config.jobs.empty()) return fail(config.path + ": there is no [[job]] to compare");
  const Config every = TRY(all_real(config));
  const RunReport all = TRY(run(every, progress));
  const RunReport emulated = TRY(run(config, progress));
  RealComparison out;
  out.nodes = static_cast<size_t>(std::ranges::count(every.nodes, true, &NodeConfig::real));
  out.real = static_cast<size_t>(std::ranges::count(config.nodes, true, &NodeConfig::real));
  for (const JobConfig& job : config.jobs) {
    const auto first =
        std::ranges::find_if(job.ranks, [&](NodeId node) { return config.nodes[node].real; });
    const JobReport *a = report_of(all, job.name), *b = report_of(emulated, job.name);
    if (a == nullptr || b == nullptr) continue;
    RealPart part = part_of(job, config.nodes[*first].name, *a, *b, out.wrong);
    if (!part.rows.empty()) out.parts.push_back(std::move(part));
  }
  add_wrong(out.wrong, "all real", all);
  add_wrong(out.wrong, "beside emulated nodes", emulated);
  if (!out.parts.empty()) return out;
  std::string text = config.path + ": no operation was carried out by both";
  for (const std::string& line : out.wrong) text += "\n  " + line;
  return fail(text);
}

}  // namespace understudy
