// What a run of [[traffic]] is to write over time.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

struct SeriesOptions {
  std::string path;  ///< of the CSV; empty: none
  std::string plot;  ///< *.svg or *.png; empty: none
  Duration interval = Duration::us(10);
  std::vector<std::string> links, flows;  ///< patterns of names as a shell's; empty: all

  bool wanted() const { return !path.empty() || !plot.empty(); }
};

}  // namespace understudy
