// Scripts for gnuplot that bring their data along: what all plots share.
#pragma once

#include <string>
#include <vector>

#include "ctrl/report/draw.h"

namespace understudy {

/// Runs a script as `draw_with(kGnuplot, {}, script)`.
inline const DrawingProgram kGnuplot{"gnuplot", "plots", "gnuplot-nox"};

struct PlotPoint {
  double x, y;
  double spread = 0;  ///< of y, up and down; of filled curves the upper y
};

struct PlotSeries {
  std::string title;  ///< empty: not in the legend
  std::string style;  ///< gnuplot's, behind "with"
  std::vector<PlotPoint> points;
  bool spreads = false;  ///< the style draws the spread of points too
};

/// A text inside gnuplot's single quotes.
std::string in_quotes(const std::string& text);

/// Whether `file` is a picture that plot_start() knows: *.svg or *.png.
bool can_plot(const std::string& file);

/// Commands for a picture of `rows` by `columns` plots, each `row_height` points high.
std::string plot_start(const std::string& file, const std::string& heading, size_t rows,
                       size_t columns, int row_height);
/// Commands that end it.
std::string plot_end();

/// Appends one plot: each series as a named block of data, and the command that draws them.
void add_plot(const std::vector<PlotSeries>& all, std::string& script);

}  // namespace understudy
