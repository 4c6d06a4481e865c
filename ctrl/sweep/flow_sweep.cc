#include "ctrl/sweep/flow_sweep.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <future>
#include <map>

#include "ctrl/compile/scenario.h"
#include "ctrl/run/simulate.h"
#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

/// The point of Student's t distribution with so many degrees of freedom beyond which 2.5 % lie.
double student_97_5(size_t freedom) {
  constexpr std::array<double, 30> kExact = {
      12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
      2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
      2.0796,  2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  if (freedom <= kExact.size()) return kExact[freedom - 1];
  // Two terms of its expansion about the normal distribution: right to 0.0001 from here on.
  constexpr double kNormal = 1.959964;
  const auto n = static_cast<double>(freedom);
  const double first = (std::pow(kNormal, 3) + kNormal) / 4;
  const double second = (5 * std::pow(kNormal, 5) + 16 * std::pow(kNormal, 3) + 3 * kNormal) / 96;
  return kNormal + first / n + second / (n * n);
}

/// The slowdowns of all tables that report them. Nothing: none does.
std::optional<std::vector<FlowSlowdown>> slowdowns_of(const RunReport& report, uint64_t& unended) {
  if (!report.traffic) return std::nullopt;
  std::optional<std::vector<FlowSlowdown>> all;
  for (const TrafficGroupReport& group : report.traffic->groups) {
    if (!group.slowdowns) continue;
    if (!all) all.emplace();
    all->insert(all->end(), group.slowdowns->begin(), group.slowdowns->end());
    unended += group.count - group.ended;
  }
  return all;
}

/// A size's figures, seed by seed.
struct Collected {
  SweepRow row;
  std::array<std::vector<double>, kPercentiles.size()> values;

  void add(const SlowdownBucket& bucket) {
    row.above = bucket.above;
    row.most = std::max(row.most, bucket.most);
    row.flows += bucket.flows;
    for (size_t i = 0; i < kPercentiles.size(); ++i) {
      values[i].push_back(bucket.at[i]);
      row.too_few[i] = row.too_few[i] || bucket.is_largest(i);
    }
  }
  SweepRow take() {
    for (size_t i = 0; i < kPercentiles.size(); ++i) row.at[i] = estimate(values[i]);
    return row;
  }
};

/// As `simulate --seed` has it.
Result<RunReport> run_of(const SweepCase& curve, uint64_t seed,
                         const std::function<void(const std::string&)>& progress) {
  Config config = *curve.config;
  config.seed = seed;
  if (!curve.as_configured) {
    for (TrafficConfig& traffic : config.traffic) traffic.control = curve.control;
  }
  const Scenario scenario = TRY(compile_scenario({config}, RunClock::kVirtual));
  SimulateOptions options;
  options.progress = progress;
  return simulate(scenario, options);
}

/// What the runs of a curve have come to so far.
class CurveRuns {
 public:
  CurveRuns(const SweepCase& curve, const SweepOptions& options, FlowSweep& sweep)
      : case_(curve), options_(options), sweep_(sweep) {
    curve_.name = curve.name;
    curve_.first_seed = curve.config->seed;
  }

  Result<void> add(const RunReport& report) {
    const auto flows = slowdowns_of(report, curve_.unended);
    if (!flows) {
      return fail("no [[traffic]] of pattern \"poisson\" or with slowdown = true");
    }
    if (!flows->empty()) all_.add(slowdown_of_all(*flows));
    for (const SlowdownBucket& bucket : slowdown_buckets(*flows)) by_size_[bucket.most].add(bucket);
    for (const FlowSlowdown& flow : *flows) curve_.slowdowns.push_back(flow.slowdown);
    add_validity(report);
    if (options_.progress) {
      options_.progress(format_text("%s, seed %llu: %zu flows, %.3f ms modelled",
                                    case_.name.c_str(),
                                    static_cast<unsigned long long>(report.seed), flows->size(),
                                    report.duration.seconds() * 1e3));
    }
    return options_.done ? options_.done(case_, report.seed, report) : Result<void>();
  }

  SweepCurve take() {
    for (auto& [most, collected] : by_size_) curve_.rows.push_back(collected.take());
    curve_.all = all_.take();
    std::ranges::sort(curve_.slowdowns);
    return std::move(curve_);
  }

 private:
  /// Each id once; that a run has one seed is no doubt about several.
  void add_validity(const RunReport& report) {
    for (const ValidityLine& line : report.validity) {
      if (line.id == "one-seed" && options_.seeds > 1) continue;
      const auto known = std::ranges::find(sweep_.validity, line.id, &ValidityLine::id);
      if (known == sweep_.validity.end()) sweep_.validity.push_back(line);
    }
  }

  const SweepCase& case_;
  const SweepOptions& options_;
  FlowSweep& sweep_;
  SweepCurve curve_;
  std::map<uint64_t, Collected> by_size_;
  Collected all_;
};

}  // namespace

Estimate estimate(const std::vector<double>& values) {
  Estimate out;
  out.seeds = static_cast<uint32_t>(values.size());
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) out.mean += value / n;
  if (values.size() == 1) return out;
  double squares = 0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  out.half_width = student_97_5(values.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return out;
}

Result<FlowSweep> sweep_flows(const std::vector<SweepCase>& cases, const SweepOptions& options) {
  FlowSweep sweep;
  sweep.seeds = options.seeds;
  // Runs share nothing. Their results are taken in order, while those behind go on.
  const auto progress = options.threads == 1 ? options.progress : nullptr;
  std::deque<std::future<Result<RunReport>>> ahead;
  const size_t runs = cases.size() * options.seeds;
  const auto seed_of = [&](size_t run) {
    return cases[run / options.seeds].config->seed + run % options.seeds;
  };
  size_t begun = 0;
  for (const SweepCase& curve : cases) {
    CurveRuns of_curve(curve, options, sweep);
    for (uint32_t i = 0; i < options.seeds; ++i) {
      for (; begun < runs && ahead.size() < options.threads; ++begun) {
        ahead.push_back(std::async(std::launch::async, run_of,
                                   std::cref(cases[begun / options.seeds]), seed_of(begun),
                                   std::cref(progress)));
      }
      const Result<RunReport> report = ahead.front().get();
      ahead.pop_front();
      const auto added =
          report ? of_curve.add(*report) : Result<void>(tl::unexpected(report.error()));
      if (!added) {
        return fail(curve.name + ", seed " + std::to_string(curve.config->seed + i) + ": " +
                    added.error().text);
      }
    }
    sweep.curves.push_back(of_curve.take());
  }
  return sweep;
}

}  // namespace understudy
