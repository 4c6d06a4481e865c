// `understudy compare`: the same configuration at three speeds side by side, in closed forms, as
// flows and packet by packet, with the reasons where they differ.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/predict/prediction.h"
#include "ctrl/report/run_report.h"
#include "ctrl/topology/topology.h"
#include "dataplane/base/result.h"

namespace understudy {

enum class Speed : uint8_t { kClosedForm, kFlow, kPackets };
inline constexpr size_t kSpeeds = 3;

/// Two times that differ by more than this share, or less than this time, are called equal.
inline constexpr double kEqualShare = 0.01;
inline constexpr double kEqualTime = 0.1;  ///< us

/// (a - b) / b.
std::optional<double> difference(const std::optional<double>& a, const std::optional<double>& b);

struct ComparedRow {
  uint64_t bytes = 0;
  std::string way;  ///< "ring simple, 8 ch"
  /// What `predict` says, by the closed form or as flows.
  std::optional<double> predict;
  std::optional<PredictedRow> predicted;
  /// Microseconds, the mean of the timed operations; nothing: that speed has no figure.
  std::array<std::optional<double>, kSpeeds> time;
  /// Why two of them differ by more than kEqualShare. Empty where none do.
  std::vector<std::string> reasons;
  /// They differ, and no rule says why.
  bool unexplained = false;

  std::optional<double> of(Speed speed) const { return time[static_cast<size_t>(speed)]; }
  /// (a - b) / b.
  std::optional<double> difference(Speed a, Speed b) const {
    return understudy::difference(of(a), of(b));
  }
  /// They are further apart than kEqualShare and kEqualTime.
  bool differs(Speed a, Speed b) const;
};

/// A job, or the flows of one [[traffic]] with one row.
struct ComparedPart {
  std::string name;     ///< "job 'ring'"
  std::string heading;  ///< collective and ranks
  std::vector<ComparedRow> rows;
};

struct Comparison {
  std::vector<ComparedPart> parts;
  /// By Speed: why it has no figures; empty: it has.
  std::array<std::string, kSpeeds> refused;
  std::vector<ValidityLine> validity;  ///< of all three, each id once
};

struct CompareOptions {
  bool flow = true, packets = true;
  std::function<void(const std::string&)> progress;  ///< lines for a person; may be empty
};

/// `config` has at least one [[job]] or [[traffic]], or a [model]. Error: no speed has an answer.
Result<Comparison> compare(const Config& config, const Topology* topology,
                           const CompareOptions& options);

std::string comparison_text(const Config& config, const Comparison& comparison);
/// ctrl/report/comparison.schema.json.
std::string comparison_json(const Config& config, const Comparison& comparison);

}  // namespace understudy
