#include "ctrl/run/commands_text.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include "ctrl/config/events/events_text.h"
#include "ctrl/config/suggest.h"
#include "ctrl/config/units_text.h"
#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr const char* kAllowed =
    "; expected: [at TIME] link NODE|A - B|A -> B [rate RATE] [latency TIME] [loss P] [down "
    "[TIME]|up], or link A -> NIC storm [TIME] [priority P] [quanta N], or switch NAME down "
    "[TIME]|up, or node NODE pause [TIME]|resume, or node NODE nic N down [TIME]|up, or node NODE "
    "storm [TIME] [priority P] [quanta N], or traffic NAME start|stop";

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

/// Word for word.
class CommandReader {
 public:
  CommandReader(const Config& config, std::string_view text)
      : config_(config), text_(text), words_(words(text)) {}

  Result<EventConfig> run() {
    if (left() > 1 && words_[next_] == "at") {
      ++next_;
      event_.at = Time::zero() + TRY(take_duration());
    }
    const std::string subject = left() > 1 ? words_[next_++] : "";
    if (subject == "link") {
      TRY(read_link());
    } else if (subject == "node") {
      TRY(read_node());
    } else if (subject == "switch") {
      TRY(read_switch());
    } else if (subject == "traffic") {
      TRY(read_traffic());
    } else {
      return wrong("no \"link NODE\", \"node NODE\", \"switch NAME\" or \"traffic NAME\"");
    }
    if (left() > 0) return wrong("\"" + words_[next_] + "\" is too much");
    return event_;
  }

 private:
  size_t left() const { return words_.size() - next_; }
  tl::unexpected<Error> wrong(const std::string& why) const { return wrong_value(why + kAllowed); }
  /// Of a command whose form is right.
  tl::unexpected<Error> wrong_value(const std::string& why) const {
    return fail("command \"" + std::string(text_) + "\": " + why);
  }
  /// The value of the word before.
  Result<std::string> take() {
    if (left() == 0) return wrong("\"" + words_[next_ - 1] + "\" has no value");
    return words_[next_++];
  }
  Result<Duration> take_duration() {
    const auto value = parse_duration(TRY(take()));
    if (!value) return wrong_value(value.error().text);
    return *value;
  }

  Result<void> take_node() {
    const std::string name = TRY(take());
    const NodeConfig* node = config_.find_node(name);
    if (node == nullptr) {
      std::vector<std::string_view> names;
      for (const NodeConfig& n : config_.nodes) names.push_back(n.name);
      return wrong_value("no node \"" + name + "\"" + suggest(name, names));
    }
    event_.node = node->index;
    return {};
  }

  Result<void> read_link() {
    if (left() > 2 && (words_[next_ + 1] == "-" || words_[next_ + 1] == "->")) {
      event_.link = LinkName{words_[next_], words_[next_ + 2], words_[next_ + 1] == "-"};
      next_ += 3;
    } else {
      TRY(take_node());
    }
    if (left() == 0) return wrong("nothing that changes is given");
    if (words_[next_] == "storm") return read_storm();
    while (left() > 0) TRY(read_change());
    return {};
  }

  Result<void> read_change() {
    const std::string what = words_[next_++];
    if ((what == "rate" && event_.rate) || (what == "latency" && event_.latency) ||
        (what == "loss" && event_.loss)) {
      return wrong("\"" + what + "\" is said twice");
    }
    if (what == "rate") {
      const auto rate = parse_rate(TRY(take()));
      if (!rate) return wrong_value(rate.error().text);
      event_.rate = *rate;
    } else if (what == "latency") {
      event_.latency = TRY(take_duration());
    } else if (what == "loss") {
      event_.loss = TRY(take_probability());
    } else if ((what == "down" || what == "up") && !event_.action) {
      event_.action = what == "down" ? EventAction::kDown : EventAction::kUp;
      if (what == "down") TRY(read_time());
    } else {
      return wrong("\"" + what + "\" is none of rate, latency, loss, down and up");
    }
    return {};
  }

  Result<double> take_probability() {
    const std::string text = TRY(take());
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1)) {
      return wrong_value("\"" + text + "\" is no probability from 0 to 1");
    }
    return value;
  }

  /// How long, if that is said.
  Result<void> read_time() {
    if (left() == 0 || words_[next_].find_first_of("0123456789") != 0) return {};
    const Duration lasts = TRY(take_duration());
    if (lasts == Duration()) return wrong_value("it takes some time");
    event_.lasts = lasts;
    return {};
  }

  Result<uint32_t> take_number(uint32_t least, uint32_t most) {
    const std::string text = TRY(take());
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least &&
        value <= most) {
      return value;
    }
    return wrong_value("\"" + text + "\" is no number from " + std::to_string(least) + " to " +
                       std::to_string(most));
  }

  /// "storm", and what belongs to it.
  Result<void> read_storm() {
    ++next_;
    event_.action = EventAction::kStorm;
    TRY(read_time());
    bool quanta = false;
    while (left() > 0 && (words_[next_] == "priority" || words_[next_] == "quanta")) {
      const std::string what = words_[next_++];
      if (what == "quanta" ? quanta : event_.priority.has_value()) {
        return wrong("\"" + what + "\" is said twice");
      }
      if (what == "quanta") {
        quanta = true;
        event_.quanta = TRY(take_number(1, 65'535));
      } else {
        event_.priority = static_cast<uint8_t>(TRY(take_number(0, kPriorities - 1)));
      }
    }
    return {};
  }

  /// "down", and for how long, or "up".
  Result<void> read_down_or_up() {
    const std::string what = TRY(take());
    if (what != "down" && what != "up") return wrong("\"" + what + "\" is neither down nor up");
    event_.action = what == "down" ? EventAction::kDown : EventAction::kUp;
    return what == "down" ? read_time() : Result<void>();
  }

  Result<void> read_switch() {
    event_.of_switch = TRY(take());
    return read_down_or_up();
  }

  Result<void> read_nic() {
    const NodeConfig& node = config_.nodes[event_.node];
    const uint32_t nic = TRY(take_number(0, static_cast<uint32_t>(node.nics.size()) - 1));
    event_.nic = nic;
    if (left() > 0 && words_[next_] == "storm") return read_storm();
    return read_down_or_up();
  }

  Result<void> read_node() {
    TRY(take_node());
    if (left() > 0 && words_[next_] == "storm") return read_storm();
    const std::string what = TRY(take());
    if (what == "nic") return read_nic();
    if (what != "pause" && what != "resume") {
      return wrong("\"" + what + "\" is neither pause nor resume");
    }
    event_.action = what == "pause" ? EventAction::kPause : EventAction::kResume;
    return what == "pause" ? read_time() : Result<void>();
  }

  /// A name may have several words.
  Result<void> read_traffic() {
    const std::string what = words_.back();
    if (left() < 2 || (what != "start" && what != "stop")) {
      return wrong("\"" + what + "\" is neither start nor stop");
    }
    std::string name = words_[next_++];
    while (left() > 1) name += " " + words_[next_++];
    ++next_;
    const auto found = find_traffic(config_, name);
    if (!found) return wrong_value("\"" + name + "\": " + found.error().text);
    event_.traffic = *found;
    event_.action = what == "start" ? EventAction::kStart : EventAction::kStop;
    return {};
  }

  const Config& config_;
  std::string_view text_;
  std::vector<std::string> words_;
  size_t next_ = 0;
  EventConfig event_;
};

}  // namespace

Result<EventConfig> parse_command(const Config& config, std::string_view text) {
  return CommandReader(config, text).run();
}

std::string command_text(const Config& config, const EventConfig& event) {
  std::string text = "link ";
  if (event.is_of_node()) text = "node ";
  if ((event.is_storm() && !event.link) || event.nic) text = "node ";
  if (event.is_of_traffic()) {
    text = "traffic " + config.traffic[event.traffic].name;
  } else if (event.of_switch) {
    text = "switch " + *event.of_switch;
  } else {
    text += event.link ? text_of(*event.link) : config.nodes[event.node].name;
    if (event.nic) text += " nic " + std::to_string(*event.nic);
  }
  if (event.rate) {
    text += event.rate->is_unlimited() ? " rate unlimited"
                                       : " rate " + std::to_string(event.rate->bps()) + "bit/s";
  }
  if (event.latency) text += " latency " + exact_text(*event.latency);
  if (event.loss) text += format_text(" loss %.9g", *event.loss);
  if (event.action) text += " " + std::string(name_of(*event.action));
  if (event.lasts) text += " " + exact_text(*event.lasts);
  if (event.priority) text += " priority " + std::to_string(*event.priority);
  if (event.is_storm() && event.quanta != 65'535) text += " quanta " + std::to_string(event.quanta);
  return text;
}

}  // namespace understudy
