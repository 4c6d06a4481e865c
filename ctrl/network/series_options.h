// What a run is to write over time.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

struct SeriesOptions {
  std::string path;                      ///< of the CSV; empty: none
  std::string plot;                      ///< *.svg or *.png; empty: none
  Duration interval = Duration::us(10);  ///< in the run's time
  std::vector<std::string> links;        ///< patterns of names as a shell's; empty: all
  std::vector<std::string> flows;        ///< the same, of flows and queue pairs

  bool wanted() const { return !path.empty() || !plot.empty(); }
};

}  // namespace understudy
