#include "tools/roce_check/findings/stream_results.h"

#include <algorithm>

namespace understudy {

Duration DurationSamples::quantile(unsigned permille) const {
  if (samples_.empty()) return Duration();
  std::vector<Duration> sorted = samples_;
  const size_t rank = (sorted.size() - 1) * std::min(permille, 1000u) / 1000;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(rank));
  return sorted[rank];
}

const char* retry_cause_name(RetryCause cause) {
  switch (cause) {
    case RetryCause::kSequenceNak:
      return "sequence_nak";
    case RetryCause::kRnrNak:
      return "rnr_nak";
    case RetryCause::kImpliedNak:
      return "implied_nak";
    case RetryCause::kTimeout:
      return "timeout";
  }
  return "?";
}

}  // namespace understudy
