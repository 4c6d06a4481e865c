#include "ctrl/config/suggest.h"

#include <algorithm>
#include <cctype>

namespace understudy {
namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Levenshtein's distance in half steps: 2 for an edit, 1 for a change of case.
size_t half_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = 2 * j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = 2 * i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = a[i - 1];
      const char y = b[j - 1];
      const size_t change = x == y ? 0 : same_letter(x, y) ? 1 : 2;
      const size_t best = std::min({row[j] + 2, row[j - 1] + 2, diagonal + change});
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr size_t kLongestWord = 64;  // nobody misspells more than that; bounds the work
  if (word.empty() || word.size() > kLongestWord) return {};
  const size_t allowed = 2 * std::max<size_t>(2, word.size() / 3);
  size_t nearest = allowed + 1;
  std::string_view best;
  for (std::string_view candidate : candidates) {
    const size_t length_gap =
        std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (2 * length_gap >= nearest) continue;
    const size_t distance = half_distance(word, candidate);
    // Replacing every letter of a short word is no likeness.
    if (distance < nearest && distance < 2 * std::min(word.size(), candidate.size())) {
      nearest = distance;
      best = candidate;
    }
  }
  if (best.empty()) return {};
  return " (did you mean \"" + std::string(best) + "\"?)";
}

}  // namespace understudy
