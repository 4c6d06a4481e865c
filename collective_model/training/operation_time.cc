#include "collective_model/training/operation_time.h"

#include <algorithm>
#include <cmath>

namespace understudy {

Duration OperationTimes::of(TrainingTransfer transfer, double bytes, uint32_t ranks) const {
  if (ranks < 2) return Duration();
  const std::optional<double>* own = nullptr;
  switch (transfer) {
    case TrainingTransfer::kAllReduce:
      own = &all_reduce;
      break;
    case TrainingTransfer::kAllGather:
      own = &all_gather;
      break;
    case TrainingTransfer::kReduceScatter:
      own = &reduce_scatter;
      break;
    case TrainingTransfer::kSend:
    case TrainingTransfer::kReceive:
      break;
  }
  double carried = bytes;
  if (own != nullptr) {
    const TrainingMessage message{.transfer = transfer, .what = {}, .bytes = bytes};
    carried = *own ? **own * bytes : message.sent(ranks);
  }
  if (rate.is_unlimited()) return latency;
  return latency + Duration::ps(std::llround(carried * 8e12 / static_cast<double>(rate.bps())));
}

Duration GivenOperations::norm() const {
  return std::max({tensor.latency, pipeline.latency, data.latency});
}

}  // namespace understudy
