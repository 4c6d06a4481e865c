#include "dataplane/fabric/recoveries.h"

#include <algorithm>

namespace understudy {

void Recoveries::begin(uint32_t outage, Time at) {
  if (outage >= all_.size()) all_.resize(outage + 1);
  if (!all_[outage].sum.at.is_never()) return;  // another one of its links
  if (slots_.empty()) slots_.resize(kSlots);
  epoch_ = static_cast<uint8_t>((epoch_ + 1) % (1u << kEpochBits));
  all_[outage].sum.at = at;
  all_[outage].epoch = epoch_;
  last_ = outage;
}

std::vector<Recovery> Recoveries::all() const {
  std::vector<Recovery> sums;
  for (const Outage& outage : all_) sums.push_back(outage.sum);
  return sums;
}

/// Its place, or the free one that it would have.
size_t Recoveries::find(uint64_t stream) const {
  size_t at = (stream * 0x9e3779b97f4a7c15) >> 50;
  while (slots_[at].taken && slots_[at].stream != stream) at = (at + 1) % kSlots;
  return at;
}

void Recoveries::stop(uint64_t stream, uint32_t outage) {
  if (outage >= all_.size()) return;
  Slot& slot = slots_[find(stream)];
  if (slot.outage != kNoOutage) return;
  if (!slot.taken) {
    if (taken_ >= kSlots / 4 * 3) return;
    ++taken_;
    slot = {stream, kNoOutage, true};
  }
  slot.outage = outage;
  ++stopped_;
  ++all_[outage].sum.stopped;
}

void Recoveries::came(uint64_t stream, uint8_t epoch, Time now) {
  Slot& slot = slots_[find(stream)];
  if (slot.outage == kNoOutage) return;
  Outage& outage = all_[slot.outage];
  // Epochs are numbered in a circle: those of the half behind the outage's are older.
  constexpr unsigned kAll = 1u << kEpochBits;
  if ((epoch + kAll - outage.epoch) % kAll >= kAll / 2) return;
  slot.outage = kNoOutage;
  --stopped_;
  ++outage.sum.again;
  outage.sum.longest = std::max(outage.sum.longest, now - outage.sum.at);
}

}  // namespace understudy
