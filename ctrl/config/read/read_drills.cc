// [[drill]]: events with an outcome that is expected of them.
#include <algorithm>
#include <charconv>
#include <string>

#include "ctrl/config/read/sections.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

/// Most that is allowed of slower_by_at_most, in percent.
constexpr double kMostPercent = 100'000;

/// "10%" as a share.
std::optional<double> parse_percent(std::string_view text) {
  double percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  if (error != std::errc() || (rest != "%" && rest != " %")) return std::nullopt;
  if (!(percent >= 0 && percent <= kMostPercent)) return std::nullopt;
  return percent / 100;
}

/// Whether it leaves all as it was: by itself, or as the last of `before` about the same thing.
bool undoes(const EventConfig& event, std::span<const EventConfig> before) {
  if (event.lasts || event.action == EventAction::kUp || event.action == EventAction::kResume ||
      event.loss == 0.0) {
    return true;
  }
  return std::ranges::any_of(before, [&](const EventConfig& b) { return is_about_same(b, event); });
}

/// When all is as before, if that comes. `events`: in order of time.
std::optional<Time> end_of(std::span<const EventConfig> events) {
  Time end;
  for (size_t i = 0; i < events.size(); ++i) {
    const auto later = events.subspan(i + 1);
    const bool last = std::ranges::none_of(
        later, [&](const EventConfig& e) { return is_about_same(e, events[i]); });
    if (last && !undoes(events[i], events.first(i))) return std::nullopt;
    end = std::max(end, events[i].at + events[i].lasts.value_or(Duration()));
  }
  return end;
}

class DrillReader {
 public:
  DrillReader(const TomlNode& toml, ReadContext& context)
      : table_(toml, "drill", context.errors), context_(context) {
    drill_.line = table_.line();
  }

  void run() {
    const size_t errors = context_.errors.size();
    read_name();
    read_after();
    read_outcome();
    read_own_events();
    table_.finish();
    if (!events_.empty() && context_.errors.size() == errors) check_time();
    if (events_.empty() || context_.errors.size() != errors) return;
    const auto number = static_cast<uint32_t>(context_.config.drills.size());
    for (EventConfig& event : events_) {
      event.drill = number;
      context_.config.events.push_back(event);
    }
    context_.config.drills.push_back(drill_);
  }

 private:
  void read_name() {
    table_.require("name", "what the report and JUnit call it, as in \"port flap\"");
    const auto name = table_.text("name");
    if (!name) return;
    drill_.name = name->value;
    const auto taken = [&](const DrillConfig& other) { return other.name == drill_.name; };
    if (drill_.name.empty() || std::ranges::any_of(context_.config.drills, taken)) {
      table_.error(name->line, "name", "\"" + drill_.name + "\"",
                   drill_.name.empty() ? "expected some text" : "another [[drill]] has this name");
    }
  }

  /// after = { job = "allreduce", operations = 20 }
  void read_after() {
    const TomlNode* toml = table_.table("after");
    if (toml == nullptr) return;
    TableReader after(*toml, "drill.after", context_.errors);
    drill_.after = DrillConfig::After{};
    DrillConfig::After& read = *drill_.after;
    after.require("job", "the name of a [[job]]");
    after.require("operations", "how many of them it has done");
    if (const auto operations = after.integer("operations", 0, UINT32_MAX)) {
      read.operations = static_cast<uint32_t>(operations->value);
    }
    if (const auto name = after.text("job")) {
      const std::vector<JobConfig>& jobs = context_.config.jobs;
      const auto found = std::ranges::find(jobs, name->value, &JobConfig::name);
      read.job = static_cast<uint32_t>(found - jobs.begin());
      if (found == jobs.end()) {
        std::vector<std::string_view> names;
        names.reserve(jobs.size());
        for (const JobConfig& job : jobs) names.push_back(job.name);
        after.unknown_word(*name, "job", names);
      }
    }
    after.finish();
  }

  void read_outcome() {
    unsigned given = 0;
    for (const auto& [key, outcome] : {std::pair{"recovers_within", DrillOutcome::kRecovers},
                                       std::pair{"reports_within", DrillOutcome::kReports}}) {
      const TomlNode* value = table_.any(key);
      if (value == nullptr) continue;
      ++given;
      drill_.outcome = outcome;
      if (const auto time = table_.duration(key)) drill_.within = time->value;
      if (drill_.within == Duration()) {
        table_.error(value->line, key, value->describe(), "expected some time");
      }
    }
    if (table_.any("slower_by_at_most") != nullptr) {
      ++given;
      drill_.outcome = DrillOutcome::kSlower;
      read_slower();
    }
    if (given == 1) return;
    table_.error(table_.line(), "recovers_within", given == 0 ? "nothing" : "several outcomes",
                 "a drill needs one of recovers_within, reports_within and slower_by_at_most");
  }

  void read_slower() {
    const auto text = table_.text("slower_by_at_most");
    if (!text) return;
    if (const auto share = parse_percent(text->value)) {
      drill_.slower = *share;
    } else {
      table_.error(text->line, "slower_by_at_most", "\"" + text->value + "\"",
                   "expected a share as in \"10%\"");
    }
  }

  void read_own_events() {
    const auto tables = table_.tables("event");
    if (tables.empty()) {
      table_.error(table_.line(), "event", "nothing",
                   "a drill needs [[drill.event]] tables, with the keys of [[event]]");
    }
    for (const TomlNode* toml : tables) {
      if (const auto event = read_event(*toml, "drill.event", context_)) events_.push_back(*event);
    }
    if (events_.empty()) return;
    std::ranges::stable_sort(events_, {}, &EventConfig::at);
    drill_.from = events_.front().at;
    drill_.until = end_of(events_);
  }

  /// A node that is cut off, or stands still, for longer than it may take to recover.
  void check_time() {
    if (drill_.outcome != DrillOutcome::kRecovers) return;
    for (size_t i = 0; i < events_.size(); ++i) {
      const EventConfig& event = events_[i];
      const bool closes = event.action == EventAction::kPause ||
                          (event.action == EventAction::kDown && event.is_of_nodes_links());
      if (!closes) continue;
      Time end = event.lasts ? event.at + *event.lasts : Time::never();
      for (const EventConfig& later : std::span(events_).subspan(i + 1)) {
        const bool opens = later.action == EventAction::kUp || later.action == EventAction::kResume;
        if (opens && is_about_same(later, event)) end = std::min(end, later.at);
      }
      if (end - drill_.from <= drill_.within) continue;
      table_.error(event.line, "recovers_within",
                   end.is_never() ? "an event without end" : "an event that ends later",
                   "\"" + context_.config.nodes[event.node].name +
                       "\" cannot do anything before that: give the event an end (for), or expect "
                       "reports_within");
    }
  }

  TableReader table_;
  ReadContext& context_;
  DrillConfig drill_;
  std::vector<EventConfig> events_;
};

}  // namespace

void read_drills(TableReader& root, ReadContext& context) {
  for (const TomlNode* drill : root.tables("drill")) DrillReader(*drill, context).run();
}

}  // namespace understudy
