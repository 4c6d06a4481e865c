// `understudy compare --real`: the same jobs twice in virtual time, with every node a real one, and
// with the real nodes that the configuration has, the others emulated. How far iterations take longer
// or shorter is the error of emulating (the table of NeuronaBox, arXiv 2405.02969).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/report/run_report.h"
#include "dataplane/base/result.h"

namespace understudy {

struct RealRow {
  uint64_t bytes = 0;     ///< of an operation; of a whole iteration all of its
  bool whole = false;     ///< an iteration of operations of several sizes
  double all = 0;         ///< us an iteration takes with all nodes real ...
  double emulated = 0;    ///< ... and beside emulated ones
  uint64_t averaged = 0;  ///< iterations
  /// Share by which it takes longer beside emulated nodes.
  double error() const { return emulated / all - 1; }
};

struct RealPart {
  std::string name;   ///< of the job
  std::string way;    ///< "ring, simple, 8 ranks, 2 channels"
  std::string doubt;  ///< why the run with emulated nodes is not judged; empty: it is
  std::vector<RealRow> rows;
};

struct RealComparison {
  size_t real = 0, nodes = 0;  ///< real ones of the configuration, and all
  std::vector<RealPart> parts;
  std::vector<std::string> wrong;  ///< what one of the runs did wrong, in words
};

/// `progress` gets lines for a person; it may be empty. Error: one of both cannot be run, or there is
/// nothing to compare.
Result<RealComparison> compare_real(const Config& config,
                                    const std::function<void(const std::string&)>& progress);

/// Rows of each job with the largest error first.
std::string real_comparison_text(const RealComparison& comparison);
/// ctrl/report/real_comparison.schema.json.
std::string real_comparison_json(const Config& config, const RealComparison& comparison);

}  // namespace understudy
