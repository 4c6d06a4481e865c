#include "ctrl/session/commands_text.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "ctrl/config/suggest.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

tl::unexpected<Error> wrong(std::string_view text, const std::string& why) {
  return fail("command \"" + std::string(text) + "\": " + why +
              "; expected: [at TIME] link NODE [rate RATE] [latency TIME]");
}

}  // namespace

Result<EventConfig> parse_command(const Config& config, std::string_view text) {
  const auto w = words(text);
  size_t i = 0;
  EventConfig event;
  if (i + 1 < w.size() && w[i] == "at") {
    const auto at = parse_duration(w[i + 1]);
    if (!at) return wrong(text, at.error().text);
    event.at = Time::zero() + *at;
    i += 2;
  }
  if (i + 1 >= w.size() || w[i] != "link") return wrong(text, "no \"link NODE\"");
  const NodeConfig* node = config.find_node(w[i + 1]);
  if (node == nullptr) {
    std::vector<std::string_view> names;
    for (const NodeConfig& n : config.nodes) names.push_back(n.name);
    return wrong(text, "no node \"" + w[i + 1] + "\"" + suggest(w[i + 1], names));
  }
  event.node = node->index;
  for (i += 2; i < w.size(); i += 2) {
    if (i + 1 == w.size()) return wrong(text, "\"" + w[i] + "\" has no value");
    if (w[i] == "rate") {
      const auto rate = parse_rate(w[i + 1]);
      if (!rate) return wrong(text, rate.error().text);
      event.rate = *rate;
    } else if (w[i] == "latency") {
      const auto latency = parse_duration(w[i + 1]);
      if (!latency) return wrong(text, latency.error().text);
      event.latency = *latency;
    } else {
      return wrong(text, "\"" + w[i] + "\" is neither rate nor latency");
    }
  }
  if (!event.rate && !event.latency) return wrong(text, "neither rate nor latency is given");
  return event;
}

std::vector<EventConfig> all_events(const Config& config,
                                    const std::vector<EventConfig>& commands) {
  std::vector<EventConfig> events = config.events;
  events.insert(events.end(), commands.begin(), commands.end());
  std::ranges::stable_sort(events, {}, &EventConfig::at);
  return events;
}

std::string command_text(const Config& config, const EventConfig& event) {
  std::string text = "link " + config.nodes[event.node].name;
  if (event.rate) {
    text += event.rate->is_unlimited() ? " rate unlimited"
                                       : " rate " + std::to_string(event.rate->bps()) + "bit/s";
  }
  if (event.latency) text += " latency " + std::to_string(event.latency->ps()) + "ps";
  return text;
}

}  // namespace understudy
