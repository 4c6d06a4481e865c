#include "tools/roce_check/findings/stream_results.h"

#include <algorithm>
#include <bit>

namespace understudy {

namespace {

constexpr unsigned kClassBits = 7;  // 2^7 classes in each octave: each less than 1 % wide

int32_t class_of(uint64_t magnitude) {
  const unsigned bits = static_cast<unsigned>(std::bit_width(magnitude));
  if (bits <= kClassBits) return static_cast<int32_t>(magnitude);
  const unsigned dropped = bits - kClassBits - 1;
  return static_cast<int32_t>((dropped << kClassBits) + (magnitude >> dropped));
}

/// The middle of a class.
int64_t middle_of(int32_t number) {
  constexpr int32_t kPerOctave = 1 << kClassBits;
  if (number < 2 * kPerOctave) return number;
  const int32_t dropped = number / kPerOctave - 1;
  const int64_t kept = number % kPerOctave + kPerOctave;
  return (kept << dropped) + (int64_t{1} << dropped) / 2;
}

}  // namespace

void DurationSamples::add(Duration d) {
  least_ = count_ == 0 ? d : std::min(least_, d);
  most_ = count_ == 0 ? d : std::max(most_, d);
  ++count_;
  const auto classify = [&](Duration sample) {
    const int64_t ps = sample.ps();
    // Stamps of others may go backwards.
    const int32_t at = class_of(ps < 0 ? ~static_cast<uint64_t>(ps) : static_cast<uint64_t>(ps));
    ++classified_[ps < 0 ? ~at : at];
  };
  if (!classified_.empty()) return classify(d);
  samples_.push_back(d);
  if (samples_.size() <= kExact) return;
  for (const Duration sample : samples_) classify(sample);
  samples_ = {};
}

Duration DurationSamples::quantile(unsigned permille) const {
  if (count_ == 0) return Duration();
  const uint64_t rank = (count_ - 1) * std::min(permille, 1000u) / 1000;
  if (rank == 0) return least_;
  if (rank == count_ - 1) return most_;
  if (classified_.empty()) {
    std::vector<Duration> sorted = samples_;
    std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(rank));
    return sorted[rank];
  }
  uint64_t below = 0;
  for (const auto& [number, count] : classified_) {
    below += count;
    if (below <= rank) continue;
    const Duration middle = Duration::ps(number < 0 ? ~middle_of(~number) : middle_of(number));
    return std::clamp(middle, least_, most_);
  }
  return most_;
}

void MessageLog::add(const AcceptedMessage& message) {
  MessageSums& sums = sums_[static_cast<size_t>(message.kind)];
  ++sums.messages;
  sums.bytes += message.bytes;
  if (all_ || kept_.size() < kFirst) kept_.push_back(message);
}

MessageLog::Mark MessageLog::mark() const { return {sums_, kept_.size()}; }

void MessageLog::back_to(const Mark& mark) {
  sums_ = mark.sums;
  kept_.resize(mark.kept);
}

MessageSums MessageLog::total() const {
  MessageSums out;
  for (const MessageSums& sums : sums_) {
    out.messages += sums.messages;
    out.bytes += sums.bytes;
  }
  return out;
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
