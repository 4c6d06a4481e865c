// Reads a fuzzer's bytes as numbers; zeros once they are used up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace understudy {

/// What must hold whatever comes: the fuzzer and the tests both see an abort.
inline void must(bool holds) {
  if (!holds) std::abort();
}

class FuzzInput {
 public:
  explicit FuzzInput(std::span<const uint8_t> bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t b = rest_[0];
    rest_ = rest_.subspan(1);
    return b;
  }
  uint32_t word() {
    uint32_t v = 0;
    for (int i = 0; i < 4; ++i) v = v << 8 | byte();
    return v;
  }
  std::span<const uint8_t> take(size_t n) {
    const auto out = rest_.subspan(0, std::min(n, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace understudy
