#include "ctrl/report/inference_doubt.h"

#include <algorithm>

#include "ctrl/report/text.h"

namespace understudy {

std::string inference_doubt(const InferenceReport& found) {
  if (found.fed) return "";
  const auto& all = found.operations;
  const auto open = std::ranges::count_if(all, [](const InferredReport& o) { return !o.unique; });
  if (open == 0) return "";
  const auto first = std::ranges::find(all, false, &InferredReport::unique);
  return "what came of " + std::to_string(open) + " of " +
         count_text(all.size(), "inferred operation") +
         " something else explains, too, first of operation " +
         std::to_string(first - all.begin()) + ", taken for " + first->operation +
         ": a profiler plugin tells (operations = \"fed\")";
}

}  // namespace understudy
