#include "tools/roce_check/checks/queue_rates.h"

#include <algorithm>

namespace understudy {

void RateMeter::add(Time at, uint32_t wire_bytes) {
  if (rate_.packets++ == 0) first_ = level_at_ = at;
  last_ = at;
  rate_.wire_bytes += wire_bytes;
  recent_.push_back({at, wire_bytes});
  for (size_t i = 0; i < kPeakWindows.size(); ++i) {
    inside_[i] += wire_bytes;
    while (at - packet(from_[i]).at >= kPeakWindows[i]) {
      inside_[i] -= packet(from_[i]++).wire_bytes;
    }
    rate_.peak_bytes[i] = std::max(rate_.peak_bytes[i], inside_[i]);
  }
}

void RateMeter::settle() {
  rate_.active = last_ - first_;
  if (rate_.active > Duration()) {
    constexpr double kBitsPerByte = 8;
    const double bytes_per_second = static_cast<double>(rate_.wire_bytes) / rate_.active.seconds();
    rate_.mean_bps = bytes_per_second * kBitsPerByte;
    for (uint64_t i = settled_; i < rate_.packets; ++i) {
      const Packet& p = packet(i);
      const double drained = (p.at - level_at_).seconds() * bytes_per_second;
      level_ = std::max(0.0, level_ - drained) + p.wire_bytes;
      highest_ = std::max(highest_, level_);
      level_at_ = p.at;
    }
    rate_.burst_bytes = static_cast<uint64_t>(highest_);
    settled_ = rate_.packets;
  }
  // Of packets at one moment the rate is not known yet.
  const uint64_t needed = std::min(std::ranges::min(from_), settled_);
  recent_.erase(recent_.begin(),
                recent_.begin() + static_cast<std::ptrdiff_t>(needed - forgotten_));
  recent_.shrink_to_fit();
  forgotten_ = needed;
}

}  // namespace understudy
