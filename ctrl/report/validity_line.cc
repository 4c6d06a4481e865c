#include "ctrl/report/validity_line.h"

#include <algorithm>
#include <iterator>

#include "ctrl/report/text.h"

namespace understudy {
std::string_view kind_name(ValidityKind kind) {
  return kind == ValidityKind::kLimit ? "limit" : "doubt";
}

std::string validity_text(const std::vector<ValidityLine>& lines) {
  std::string text;
  for (const ValidityLine& line : lines) {
    text.append("# ").append(kind_name(line.kind)).append(": ").append(line.text);
    text.append(" [").append(line.id).append("]\n");
  }
  return text;
}

std::vector<ValidityLine> doubts_of(const std::vector<ValidityLine>& lines) {
  std::vector<ValidityLine> doubts;
  std::ranges::copy_if(lines, std::back_inserter(doubts),
                       [](const ValidityLine& line) { return line.kind == ValidityKind::kDoubt; });
  return doubts;
}

std::string strict_text(const std::vector<ValidityLine>& lines) {
  const size_t doubts = doubts_of(lines).size();
  return doubts == 0 ? "" : "strict: " + count_text(doubts, "doubt") + "\n";
}

}  // namespace understudy
