// How much of themselves tests go through: some cases, or, where UNDERSTUDY_CASES is "all" as for
// tools/check --full, every one (tests/extent.py).
#pragma once

#include <cstdlib>
#include <string_view>

namespace understudy {

inline bool every_case() {
  const char* asked = std::getenv("UNDERSTUDY_CASES");
  return asked != nullptr && std::string_view(asked) == "all";
}

/// Counts the cases of nested loops: one in so many is taken, the first one too. Where that number
/// and the lengths of the loops have no divisor in common, each value of each loop is met.
class SomeCases {
 public:
  explicit SomeCases(unsigned one_in) : one_in_(every_case() ? 1 : one_in) {}
  bool take() { return number_++ % one_in_ == 0; }

 private:
  unsigned one_in_;
  unsigned number_ = 0;
};

}  // namespace understudy
