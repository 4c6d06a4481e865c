#include "ctrl/config/events/events_text.h"

#include <charconv>

#include "ctrl/config/suggest.h"

namespace understudy {

std::string_view name_of(EventAction action) {
  for (const auto& [name, value] : kEventActions) {
    if (value == action) return name;
  }
  return "";
}

Result<uint32_t> find_traffic(const Config& config, std::string_view name) {
  std::optional<uint32_t> found;
  std::vector<std::string_view> names;
  for (uint32_t i = 0; i < config.traffic.size(); ++i) {
    names.push_back(config.traffic[i].name);
    if (config.traffic[i].name != name) continue;
    if (found) return fail("several [[traffic]] have this name: give the number of one, from 1 on");
    found = i;
  }
  if (found) return *found;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size() && number >= 1 &&
      number <= config.traffic.size()) {
    return number - 1;
  }
  if (config.traffic.empty()) return fail("there is no [[traffic]]");
  return fail("no [[traffic]] has this name" + suggest(name, names));
}

}  // namespace understudy
