#include "ctrl/config/events/link_name.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr std::string_view kOneWay = " -> ", kBothWays = " - ";

}  // namespace

std::optional<LinkName> parse_link_name(std::string_view text) {
  const size_t arrow = text.find(kOneWay);
  const bool both = arrow == std::string_view::npos;
  const size_t at = std::min(arrow, text.find(kBothWays));
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const std::string_view to = text.substr(at + (both ? kBothWays : kOneWay).size());
  return LinkName{std::string(text.substr(0, at)), std::string(to), both};
}

std::string text_of(const LinkName& name) {
  return name.from + std::string(name.both ? kBothWays : kOneWay) + name.to;
}

}  // namespace understudy
