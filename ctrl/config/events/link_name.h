// Links of a network as people name them: by what they join.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace understudy {

struct LinkName {
  std::string from, to;  ///< names of vertices, or patterns with '*'
  bool both = false;     ///< the other direction too
  bool operator==(const LinkName&) const = default;
};

/// "leaf0 -> spine1", or "leaf0 - spine1" for both directions. Nothing: it is neither.
std::optional<LinkName> parse_link_name(std::string_view text);

/// As it is written.
std::string text_of(const LinkName& name);

}  // namespace understudy
