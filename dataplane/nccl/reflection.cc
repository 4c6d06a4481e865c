#include "dataplane/nccl/reflection.h"

#include <algorithm>
#include <cstring>

namespace understudy {
namespace {

// The cookie: the version, the kind of flags, the flag itself.
constexpr unsigned kVersionAt = 58, kKindAt = 56;
constexpr uint64_t kFlagMask = (uint64_t{1} << kKindAt) - 1;
constexpr uint64_t kNoFlags = 0, kLl = 1, kLl128 = 2;

/// Byte `i` of a flag that repeats in lines of `line` bytes; false if `i` belongs to the data.
bool flag_byte(uint64_t kind, uint64_t flag, uint64_t i, uint8_t& out) {
  if (kind == kNoFlags) return false;
  // LL: two words of four bytes, each followed by its flag. LL128: 120 bytes, then the flag.
  const uint64_t at = kind == kLl ? i % 8 : i % 128;
  const uint64_t first = kind == kLl ? 4 : 120;
  if (at < first) return false;
  out = static_cast<uint8_t>(flag >> (8 * (at - first)));
  return true;
}

}  // namespace

void Reflection::take(std::span<const uint8_t> message) {
  if (message.empty() || message.size() > kMost) return;
  const Version& last = newest();
  if (last.size == message.size() &&
      std::memcmp(last.bytes.data(), message.data(), message.size()) == 0) {
    return;
  }
  Version& next = versions_[++newest_ % kVersions];
  next.size = static_cast<uint32_t>(message.size());
  std::memcpy(next.bytes.data(), message.data(), message.size());
}

PayloadRef Reflection::payload(const NcclSteps::Place& place) const {
  const uint64_t kind = place.kind == CreditKind::kLL      ? kLl
                        : place.kind == CreditKind::kLL128 ? kLl128
                                                           : kNoFlags;
  PayloadRef payload;
  payload.source = this;
  payload.cookie =
      uint64_t{newest_ % kVersions} << kVersionAt | kind << kKindAt | (place.flag() & kFlagMask);
  return payload;
}

void Reflection::fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const {
  const Version& version = versions_[cookie >> kVersionAt];
  const uint64_t kind = cookie >> kKindAt & 3;
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t at = offset + i;
    if (flag_byte(kind, cookie & kFlagMask, at, out[i])) continue;
    out[i] = version.size == 0 ? uint8_t{0} : version.bytes[at % version.size];
  }
}

}  // namespace understudy
