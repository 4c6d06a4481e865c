// Captures to look at: PSN over time and rate over time of each queue pair, as SVG.
#pragma once

#include <string>

#include "dataplane/base/result.h"
#include "tools/roce_check/checks/analysis.h"
#include "tools/roce_check/output/drawing_child.h"

namespace understudy {

struct PlotOptions {
  std::string file;   ///< *.svg
  size_t queues = 8;  ///< the busiest ones are drawn; at least 1
};

/// gnuplot's program for the plot, with its data: what `plot` runs.
std::string plot_script(const Analysis& analysis, const std::string& title,
                        const PlotOptions& options);

/// Draws with gnuplot (Debian: gnuplot-nox), which `child` starts. Errors: gnuplot is missing or
/// fails, the file cannot be written, the capture has no packets of reliable connections.
Result<void> plot(const Analysis& analysis, const std::string& title, const PlotOptions& options,
                  DrawingChild& child);

}  // namespace understudy
