#include "ctrl/run/commands_text.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include "ctrl/config/events_text.h"
#include "ctrl/config/suggest.h"
#include "ctrl/config/units_text.h"
#include "dataplane/base/text_format.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr const char* kAllowed =
    "; expected: [at TIME] link NODE|A - B|A -> B [rate RATE] [latency TIME] [loss P] [down "
    "[TIME]|up], or node NODE pause [TIME]|resume, or traffic NAME start|stop";

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
    } else if (subject == "traffic") {
      TRY(read_traffic());
    } else {
      return wrong("no \"link NODE\", \"node NODE\" or \"traffic NAME\"");
    }
    if (left() > 0) return wrong("\"" + words_[next_] + "\" is too much");
    return event_;
  }

 private:
  size_t left() const { return words_.size() - next_; }
  tl::unexpected<Error> wrong(const std::string& why) const {
    return fail("command \"" + std::string(text_) + "\": " + why + kAllowed);
  }
  /// The value of the word before.
  Result<std::string> take() {
    if (left() == 0) return wrong("\"" + words_[next_ - 1] + "\" has no value");
    return words_[next_++];
  }
  Result<Duration> take_duration() {
    const auto value = parse_duration(TRY(take()));
    if (!value) return wrong(value.error().text);
    return *value;
  }

  Result<void> take_node() {
    const std::string name = TRY(take());
    const NodeConfig* node = config_.find_node(name);
    if (node == nullptr) {
      std::vector<std::string_view> names;
      for (const NodeConfig& n : config_.nodes) names.push_back(n.name);
      return wrong("no node \"" + name + "\"" + suggest(name, names));
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
    while (left() > 0) TRY(read_change());
    return {};
  }

  Result<void> read_change() {
    const std::string what = words_[next_++];
    if (what == "rate") {
      const auto rate = parse_rate(TRY(take()));
      if (!rate) return wrong(rate.error().text);
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
      return wrong("\"" + text + "\" is no probability from 0 to 1");
    }
    return value;
  }

  /// How long, if that is said.
  Result<void> read_time() {
    if (left() == 0 || words_[next_].find_first_of("0123456789") != 0) return {};
    const Duration lasts = TRY(take_duration());
    if (lasts == Duration()) return wrong("it takes some time");
    event_.lasts = lasts;
    return {};
  }

  Result<void> read_node() {
    TRY(take_node());
    const std::string what = TRY(take());
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
    if (!found) return wrong("\"" + name + "\": " + found.error().text);
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
  if (event.is_of_traffic()) text = "traffic ";
  if (event.is_of_traffic()) {
    text += config.traffic[event.traffic].name;
  } else {
    text += event.link ? text_of(*event.link) : config.nodes[event.node].name;
  }
  if (event.rate) {
    text += event.rate->is_unlimited() ? " rate unlimited"
                                       : " rate " + std::to_string(event.rate->bps()) + "bit/s";
  }
  if (event.latency) text += " latency " + std::to_string(event.latency->ps()) + "ps";
  if (event.loss) text += format_text(" loss %.9g", *event.loss);
  if (event.action) text += " " + std::string(name_of(*event.action));
  if (event.lasts) text += " " + std::to_string(event.lasts->ps()) + "ps";
  return text;
}

}  // namespace understudy
