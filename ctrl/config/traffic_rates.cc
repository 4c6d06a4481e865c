#include <algorithm>

#include "ctrl/config/traffic_config.h"

namespace understudy {

Bursts bursts_of(const TrafficConfig& traffic, Rate link) {
  Bursts bursts;
  bursts.bytes = traffic.bytes;
  if (traffic.bytes == 0) {
    const auto bits = static_cast<unsigned __int128>(traffic.on.ps()) * link.bps();
    bursts.bytes = std::max<uint64_t>(1, static_cast<uint64_t>(bits / Rate::kPsBitsPerByte));
  }
  bursts.period = link.time_for(bursts.bytes) + traffic.off;
  bursts.count = traffic.repeat;
  if (traffic.until) {
    const int64_t period = std::max<int64_t>(1, bursts.period.ps());
    const int64_t last = (*traffic.until - traffic.at).ps() - 1;
    bursts.count = std::min<uint64_t>(UINT32_MAX, static_cast<uint64_t>(last / period) + 1);
  }
  return bursts;
}

double poisson_rate(const TrafficConfig& traffic, Rate link) {
  constexpr double kBitsPerByte = 8;
  return traffic.load * static_cast<double>(link.bps()) / (kBitsPerByte * traffic.sizes.mean());
}

}  // namespace understudy
