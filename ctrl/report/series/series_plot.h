// Queues and rates over time, from the rows of a time series.
#pragma once

#include <string>
#include <vector>

#include "ctrl/report/series/series_file.h"

namespace understudy {

/// What is drawn, in this order; names as in the series.
struct SeriesPlot {
  std::string file;  ///< *.svg or *.png
  std::string heading;
  Duration interval;
  std::vector<std::string> links;
  std::vector<std::string> senders;  ///< queue pairs and flows
  /// How many there are beside those: they share a band from the least to the most of them.
  size_t other_links = 0, other_senders = 0;
};

/// gnuplot's program for three plots above one another: queues of the links, what they carry, rates
/// of the senders. Times without a row count as zero; a band is of those that are not zero. Error:
/// the series cannot be read back.
Result<std::string> series_script(const SeriesFile& series, const SeriesPlot& plot);

/// Draws it. Errors: as above; gnuplot is missing or fails, the file cannot be written.
Result<void> draw_series(const SeriesFile& series, const SeriesPlot& plot);

}  // namespace understudy
