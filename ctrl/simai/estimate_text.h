// SimAI's estimate of an iteration as text and as JSON.
#pragma once

#include "collective_model/simai/estimate.h"
#include "ctrl/simai/simai_file.h"

namespace understudy {

struct SimaiResult {
  std::string path;
  SimaiFile file;
  SimaiCluster cluster;
  SimaiEstimate estimate;
};

/// Sentences on how far to trust it: the file's notes, and collectives that take no time.
std::vector<std::string> simai_notes(const SimaiResult& result);

/// `layers`: also each layer's computing and collectives.
std::string simai_text(const SimaiResult& result, bool layers);
std::string simai_json(const SimaiResult& result, bool layers);

}  // namespace understudy
