#include "ctrl/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ctrl/compare/reasons.h"
#include "ctrl/compile/scenario.h"
#include "ctrl/config/kernel_nodes.h"
#include "ctrl/predict/trace_prediction.h"
#include "ctrl/predict/training_prediction.h"
#include "ctrl/run/simulate.h"

namespace understudy {
namespace {

/// Of operations of one size.
struct Mean {
  double sum = 0;
  uint32_t count = 0;
  void add(Duration d) {
    sum += d.microseconds();
    ++count;
  }
  std::optional<double> value() const {
    return count == 0 ? std::nullopt : std::optional(sum / count);
  }
};

/// The part that a training job's iterations are.
constexpr const char* kModel = "model";

/// The part that traces are.
constexpr const char* kTraces = "traces";

/// Means of the timed operations of a job, by their order of sizes.
using MeansBySize = std::vector<std::pair<uint64_t, Mean>>;

void add(MeansBySize& means, uint64_t bytes, Duration took) {
  auto it = std::ranges::find(means, bytes, &MeansBySize::value_type::first);
  if (it == means.end()) it = means.insert(means.end(), {bytes, Mean()});
  it->second.add(took);
}

/// What a run came to, in the words of a comparison: by the name of each part.
std::map<std::string, MeansBySize> figures(const RunReport& report) {
  std::map<std::string, MeansBySize> out;
  for (const JobReport& job : report.jobs) {
    for (const CollectiveReport& c : job.collectives) {
      if (!c.warmup) add(out["job '" + job.name + "'"], c.bytes, c.measured);
    }
  }
  if (!report.traffic) return out;
  for (const RankJobReport& job : report.traffic->jobs) {
    for (const RankOperationReport& o : job.operations) {
      if (!o.warmup) add(out["job '" + job.name + "'"], o.bytes, o.mean);
    }
  }
  if (report.traffic->training) {
    for (const IterationResult& iteration : report.traffic->training->iterations) {
      add(out[kModel], 0, iteration.took());
    }
  }
  if (report.traffic->traces) {
    add(out[kTraces], 0, report.traffic->traces->finish() - Time::zero());
  }
  for (const TrafficGroupReport& group : report.traffic->groups) {
    if (group.ended > 0) add(out["traffic '" + group.name + "'"], group.bytes, group.took);
  }
  return out;
}

Result<RunReport> run_at(const Config& config, FabricFidelity fidelity,
                         const CompareOptions& options) {
  Config at = config;  // as --fidelity has it
  at.fabric.fidelity = fidelity;
  const auto scenario = compile_scenario({at}, RunClock::kVirtual);
  if (!scenario) return tl::unexpected(scenario.error());
  SimulateOptions simulate_options;
  simulate_options.progress = options.progress;
  return simulate(*scenario, simulate_options);
}

/// Each id once.
void add_validity(std::vector<ValidityLine>& all, const std::vector<ValidityLine>& more) {
  for (const ValidityLine& line : more) {
    if (std::ranges::find(all, line.id, &ValidityLine::id) == all.end()) all.push_back(line);
  }
}

class Comparer {
 public:
  Comparer(const Config& config, const Topology* topology, const CompareOptions& options)
      : config_(config), topology_(topology), options_(options) {}

  Result<Comparison> compare();

 private:
  void add_predictions();
  void add_model();
  void add_traces(const Topology& topology);
  void explain_model(ComparedRow& row) const;
  void add_run(Speed speed, FabricFidelity fidelity, bool asked);
  ComparedRow& row(const std::string& part, uint64_t bytes);
  std::string& refused(Speed speed) { return out_.refused[static_cast<size_t>(speed)]; }

  const Config& config_;
  const Topology* topology_;
  const CompareOptions& options_;
  Comparison out_;
  std::vector<Prediction> predictions_;
  std::array<std::optional<RunReport>, kSpeeds> reports_;
};

ComparedRow& Comparer::row(const std::string& part, uint64_t bytes) {
  auto it = std::ranges::find(out_.parts, part, &ComparedPart::name);
  if (it == out_.parts.end()) it = out_.parts.insert(out_.parts.end(), {part, "", {}});
  auto at = std::ranges::find(it->rows, bytes, &ComparedRow::bytes);
  if (at == it->rows.end()) {
    at = it->rows.insert(it->rows.end(), ComparedRow());
    at->bytes = bytes;
  }
  return *at;
}

/// Its iterations, of which predict's are all alike.
void Comparer::add_model() {
  Result<Topology> own = fail("");
  if (topology_ == nullptr) {
    auto built = build_topology(config_);
    if (!built) {
      refused(Speed::kClosedForm) = describe(built.error());
      return;
    }
    own = std::move(*built);
  }
  const Topology& topology = topology_ == nullptr ? *own : *topology_;
  if (config_.workload) add_traces(topology);
  if (!config_.training) return;
  const auto prediction = predict_training(config_, topology);
  if (!prediction) {
    refused(Speed::kClosedForm) = prediction.error().text;
    return;
  }
  add_validity(out_.validity, training_validity(config_, topology));
  Mean mean;
  for (const IterationResult& iteration : prediction->iterations) mean.add(iteration.took());
  ComparedRow& compared = row(kModel, 0);
  compared.way = "iterations, " + std::to_string(prediction->gpus) + " GPUs";
  compared.predict = compared.time[static_cast<size_t>(Speed::kClosedForm)] = mean.value();
}

void Comparer::add_traces(const Topology& topology) {
  const auto prediction = predict_traces(config_, topology);
  if (!prediction) {
    refused(Speed::kClosedForm) = prediction.error().text;
    return;
  }
  add_validity(out_.validity, trace_validity(config_, topology, *prediction));
  ComparedRow& compared = row(kTraces, 0);
  compared.way =
      "until all of " + std::to_string(prediction->report.ranks.size()) + " ranks have finished";
  compared.predict = compared.time[static_cast<size_t>(Speed::kClosedForm)] =
      (prediction->report.finish() - Time::zero()).microseconds();
}

void Comparer::explain_model(ComparedRow& row) const {
  const bool closed = row.differs(Speed::kClosedForm, Speed::kPackets) ||
                      row.differs(Speed::kClosedForm, Speed::kFlow);
  if (closed && !config_.events.empty()) {
    row.reasons.emplace_back("closed forms know no [[event]]");
  }
  if (closed) {
    row.reasons.emplace_back(
        config_.workload
            ? "in closed forms only communicators with the same operations share the network"
            : "in closed forms operations of different stages, and gradients beside messages "
              "between stages, do not take each other's bandwidth");
  }
  if (row.differs(Speed::kFlow, Speed::kPackets)) {
    row.reasons.emplace_back(
        "flows share links evenly: no queues, congestion control or losses, and a ring's messages "
        "do not wait for each other");
  }
}

void Comparer::add_predictions() {
  const bool workload = config_.training || config_.workload;
  if (workload) add_model();
  if (workload && config_.jobs.empty()) return;
  if (config_.jobs.empty()) {
    refused(Speed::kClosedForm) = "there is no [[job]], and [[traffic]] has no closed form";
    return;
  }
  auto predictions = predict(config_, topology_);
  if (!predictions) {
    refused(Speed::kClosedForm) = describe(predictions.error());
    return;
  }
  predictions_ = std::move(*predictions);
  for (const Prediction& prediction : predictions_) {
    const std::string part = "job '" + prediction.job->name + "'";
    for (const PredictedRow& predicted : prediction.rows) {
      ComparedRow& compared = row(part, predicted.bytes);
      compared.way = way_text(prediction, predicted);
      compared.time[static_cast<size_t>(Speed::kClosedForm)] = predicted.closed_form;
      compared.predict = predicted.time;
      compared.predicted = predicted;
    }
    out_.parts.back().heading = heading_text(config_, prediction);
  }
}

void Comparer::add_run(Speed speed, FabricFidelity fidelity, bool asked) {
  if (!asked) {
    refused(speed) = "left out";
    return;
  }
  auto report = run_at(config_, fidelity, options_);
  if (!report) {
    refused(speed) = report.error().text;
    return;
  }
  for (const auto& [part, means] : figures(*report)) {
    for (const auto& [bytes, mean] : means) {
      row(part, bytes).time[static_cast<size_t>(speed)] = mean.value();
    }
  }
  reports_[static_cast<size_t>(speed)] = std::move(*report);
}

Result<Comparison> Comparer::compare() {
  add_predictions();
  add_run(Speed::kFlow, FabricFidelity::kFlow, options_.flow);
  add_run(Speed::kPackets, FabricFidelity::kPacket, options_.packets);
  if (out_.parts.empty()) {
    std::string text = config_.path + ": nothing to compare";
    for (const std::string& why : out_.refused) text += "\n  " + why;
    return fail(text);
  }
  const Reasons reasons(config_, reports_[static_cast<size_t>(Speed::kPackets)]);
  for (ComparedPart& part : out_.parts) {
    for (ComparedRow& row : part.rows) {
      part.name == kModel || part.name == kTraces ? explain_model(row) : reasons.explain(row);
    }
  }
  for (const auto& report : reports_) {
    if (report) add_validity(out_.validity, report->validity);
  }
  add_validity(out_.validity, prediction_validity(predictions_));
  return std::move(out_);
}

}  // namespace

std::optional<double> difference(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b || *b <= 0) return std::nullopt;
  return (*a - *b) / *b;
}

bool ComparedRow::differs(Speed a, Speed b) const {
  const auto share = difference(a, b);
  return share && std::abs(*share) > kEqualShare && std::abs(*of(a) - *of(b)) > kEqualTime;
}

Result<Comparison> compare(const Config& config, const Topology* topology,
                           const CompareOptions& options) {
  if (has_kernels(config)) {
    return fail(config.path +
                ": nodes of kind \"kernel\" have one speed, that of packets: use simulate");
  }
  return Comparer(config, topology, options).compare();
}

}  // namespace understudy
