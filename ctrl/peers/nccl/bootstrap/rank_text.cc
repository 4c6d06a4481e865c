#include "ctrl/peers/nccl/bootstrap/rank_text.h"

#include <algorithm>

namespace understudy {

std::string ranks_text(std::vector<uint32_t>& ranks) {
  constexpr size_t kMostRuns = 6;
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  size_t runs = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (runs == kMostRuns) return text + " and " + std::to_string(ranks.size() - i) + " more";
    if (runs++ > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (end > i + 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace understudy
