#include "dataplane/nccl/nccl_steps.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

namespace understudy {
namespace {

constexpr uint32_t kSteps = 8;       // NCCL_STEPS
constexpr uint64_t kSliceSteps = 2;  // of the rings' Simple protocol
constexpr uint64_t kChunkSteps = 4;

/// Copies that part of endlessly repeated lines which starts at `offset`.
template <size_t N>
void repeat(const std::array<uint8_t, N>& line, uint64_t offset, std::span<uint8_t> out) {
  for (size_t i = 0; i < out.size();) {
    const size_t at = (offset + i) % N;
    const size_t piece = std::min(N - at, out.size() - i);
    std::memcpy(out.data() + i, line.data() + at, piece);
    i += piece;
  }
}

static_assert(std::endian::native == std::endian::little, "flags are copied as they lie in memory");

/// Two words of data, each with the flag behind it. The cookie is the flag.
class LlLines final : public PayloadSource {
 public:
  void fill(uint64_t flag, uint64_t offset, std::span<uint8_t> out) const override {
    const uint32_t words[4] = {0, static_cast<uint32_t>(flag), 0, static_cast<uint32_t>(flag)};
    std::array<uint8_t, sizeof words> line;
    std::memcpy(line.data(), words, sizeof words);
    repeat(line, offset, out);
  }
};

/// 120 bytes of data, then the flag.
class Ll128Lines final : public PayloadSource {
 public:
  void fill(uint64_t flag, uint64_t offset, std::span<uint8_t> out) const override {
    std::array<uint8_t, 128> line{};
    std::memcpy(line.data() + line.size() - sizeof flag, &flag, sizeof flag);
    repeat(line, offset, out);
  }
};

const LlLines kLlLines;
const Ll128Lines kLl128Lines;

}  // namespace

CreditKind credit_kind(uint64_t capacity, const NcclBuffers& buffers) {
  if (capacity == buffers.ll / kSteps) return CreditKind::kLL;
  if (capacity == buffers.ll128 / kSteps) return CreditKind::kLL128;
  const uint64_t step = buffers.simple / kSteps;
  if (capacity == kSliceSteps * step) return CreditKind::kSimpleSlice;
  return capacity == step ? CreditKind::kSimpleStep : CreditKind::kOther;
}

NcclSteps::Place NcclSteps::next(uint64_t capacity, const NcclBuffers& buffers) {
  Place place;
  place.kind = credit_kind(capacity, buffers);
  if (place.kind == CreditKind::kOther) {
    place.step = step_;
    return place;
  }
  const bool slices = place.kind == CreditKind::kSimpleSlice;
  // An operation starts at a multiple of its chunk's steps and takes a multiple of them.
  if (slices && last_ != CreditKind::kSimpleSlice) {
    step_ = (step_ + kChunkSteps - 1) & ~(kChunkSteps - 1);
  }
  last_ = place.kind;
  place.step = step_;
  const uint32_t buffer = place.kind == CreditKind::kLL      ? buffers.ll
                          : place.kind == CreditKind::kLL128 ? buffers.ll128
                                                             : buffers.simple;
  place.offset = static_cast<uint32_t>(step_ % kSteps) * (buffer / kSteps);
  step_ += slices ? kSliceSteps : 1;
  return place;
}

PayloadRef flag_lines(const NcclSteps::Place& place) {
  PayloadRef lines;
  lines.cookie = place.flag();
  if (place.kind == CreditKind::kLL) lines.source = &kLlLines;
  if (place.kind == CreditKind::kLL128) lines.source = &kLl128Lines;
  return lines;
}

}  // namespace understudy
