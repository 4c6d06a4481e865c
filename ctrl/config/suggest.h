// "Did you mean": the known word nearest to a misspelt one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace understudy {

/// ` (did you mean "x"?)` for the candidate within an edit distance of a third of the word's length
/// (at least 2), or an empty text. Case counts as half the distance.
std::string suggest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace understudy
