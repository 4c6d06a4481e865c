#include <algorithm>
#include <cmath>

#include "ctrl/report/series/gnuplot.h"
#include "ctrl/sweep/flow_sweep.h"

namespace understudy {
namespace {

constexpr int kRowHeight = 420;
constexpr size_t kCurvePoints = 200;  ///< of a distribution
constexpr std::array<size_t, 3> kDrawn = {0, 1, 2};

/// Told apart on white.
constexpr std::array<const char*, 8> kColours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                                 "#ff7f0e", "#17a2b8", "#8c564b", "#555555"};

/// `kind`: "lines", or "yerrorlines", which has points.
std::string line_style(size_t curve, const std::string& kind) {
  const std::string colour = " lc rgb " + in_quotes(kColours[curve % kColours.size()]);
  const std::string points = kind == "lines" ? "" : " pt " + std::to_string(4 + curve) + " ps 0.6";
  return kind + colour + points + " lw 1.5";
}

std::vector<PlotSeries> percentile_series(const FlowSweep& sweep, size_t percentile) {
  std::vector<PlotSeries> all;
  for (size_t i = 0; i < sweep.curves.size(); ++i) {
    PlotSeries series{sweep.curves[i].name, line_style(i, "yerrorlines"), {}, true};
    for (const SweepRow& row : sweep.curves[i].rows) {
      const Estimate& at = row.at[percentile];
      series.points.push_back({static_cast<double>(row.most), at.mean, at.half_width});
    }
    all.push_back(std::move(series));
  }
  return all;
}

/// Shares of all flows, evenly apart, and finer towards the tail.
std::vector<PlotSeries> distribution_series(const FlowSweep& sweep) {
  std::vector<PlotSeries> all;
  for (size_t i = 0; i < sweep.curves.size(); ++i) {
    const std::vector<double>& sorted = sweep.curves[i].slowdowns;
    PlotSeries series{sweep.curves[i].name, line_style(i, "lines"), {}};
    for (size_t k = 0; k <= kCurvePoints && !sorted.empty(); ++k) {
      const double share = 1 - std::pow(1 - static_cast<double>(k) / kCurvePoints, 2);
      const auto last = static_cast<double>(sorted.size() - 1);
      series.points.push_back({sorted[static_cast<size_t>(std::lround(share * last))], share});
    }
    all.push_back(std::move(series));
  }
  return all;
}

}  // namespace

std::string sweep_script(const FlowSweep& sweep, const std::string& file,
                         const std::string& heading) {
  std::string script = plot_start(file, heading, 2, 2, kRowHeight);
  script +=
      "set bmargin 7\nset logscale xy\nset format x '%.0s%c'\nset xlabel 'size of flows, at most "
      "B'\n";
  script += "set ylabel 'slowdown'\nset yrange [1:]\n";
  for (const size_t percentile : kDrawn) {
    script += std::string("set title '") + kPercentiles[percentile].name + " by size'\n";
    add_plot(percentile_series(sweep, percentile), script);
  }
  script += "unset logscale y\nset yrange [0:1]\nset format x '%g'\nset xlabel 'slowdown'\n";
  script += "set ylabel 'share of flows'\nset title 'distribution, all sizes'\n";
  add_plot(distribution_series(sweep), script);
  return script + plot_end();
}

}  // namespace understudy
