// How far to trust a result (design rule 9): lines that say what was not modelled in it, and what
// may be otherwise than it says. Made by ctrl/validity.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace understudy {

enum class ValidityKind : uint8_t {
  kLimit,  ///< what this result leaves out, as every one of its kind would
  kDoubt,  ///< a reason why this very result may be wrong; --strict refuses it
};

struct ValidityLine {
  ValidityKind kind = ValidityKind::kLimit;
  std::string_view id;  ///< of a fixed list, which docs/guides/validity.md explains
  std::string text;     ///< plain words, one line

  bool operator==(const ValidityLine&) const = default;
};

/// "limit" or "doubt".
std::string_view kind_name(ValidityKind kind);
/// "# limit: plain words [id]", a line each.
std::string validity_text(const std::vector<ValidityLine>& lines);
/// The doubts among them.
std::vector<ValidityLine> doubts_of(const std::vector<ValidityLine>& lines);
/// What --strict prints last: how many doubts there are. Empty without one.
std::string strict_text(const std::vector<ValidityLine>& lines);

}  // namespace understudy
