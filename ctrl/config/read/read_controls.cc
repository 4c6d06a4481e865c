// [[control]]: a rate controller, the published set it starts from, and knobs of its own.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ctrl/config/read/control_knobs.h"
#include "ctrl/config/read/sections.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

constexpr int64_t kMostCount = 1'000'000;
// Below this a counter would only make work: every packet is several increases.
constexpr uint64_t kLeastByteCounter = 1'000;
constexpr double kMostPositive = 1e6;

/// Knobs that the table has replace what the preset says.
class KnobReader {
 public:
  explicit KnobReader(TableReader& table) : table_(table) {}

  void flag(std::string_view key, bool& out) {
    if (const auto value = table_.boolean(key)) out = value->value;
  }

  void count(std::string_view key, uint32_t& out) {
    if (const auto value = table_.integer(key, 0, kMostCount)) {
      out = static_cast<uint32_t>(value->value);
    }
  }

  void number(std::string_view key, double& out, NumberRange range) {
    const auto value = table_.number(key);
    if (!value) return;
    const double x = value->value;
    switch (range) {
      case NumberRange::kGain:
        return take(key, *value, x > 0 && x <= 1, "a number above 0 and at most 1", out);
      case NumberRange::kShare:
        return take(key, *value, x >= 0 && x <= 1, "a number from 0 to 1", out);
      case NumberRange::kPart:
        return take(key, *value, x > 0 && x < 1, "a number above 0 and below 1", out);
      case NumberRange::kPositive:
        return take(key, *value, x > 0 && x <= kMostPositive,
                    "a number above 0 and at most a million", out);
    }
  }

  void duration(std::string_view key, Duration& out, Zero zero) {
    if (const auto value = table_.duration(key)) {
      const bool good = zero == Zero::kAllowed || value->value > Duration();
      take(key, *value, good, "a duration above zero", out);
    }
  }

  void rate(std::string_view key, Rate& out) {
    if (const auto value = table_.rate(key)) {
      take(key, *value, !value->value.is_unlimited(), "a rate that is not unlimited", out);
    }
  }

  /// `word` stands for Rate::unlimited(), which means something of its own here.
  void rate_or(std::string_view key, std::string_view word, Rate& out) {
    const TomlNode* value = table_.any(key);
    if (value != nullptr && value->kind == TomlNode::Kind::kString && value->text == word) {
      out = Rate::unlimited();
    } else if (const auto given = table_.rate(key)) {
      take(key, *given, !given->value.is_unlimited(), "a rate or \"" + std::string(word) + "\"",
           out);
    }
  }

  void size(std::string_view key, uint64_t& out) {
    if (const auto value = table_.size(key)) {
      take(key, *value, value->value == 0 || value->value >= kLeastByteCounter,
           "0B or at least " + std::to_string(kLeastByteCounter) + "B", out);
    }
  }

  template <typename E>
  void choice(std::string_view key, std::initializer_list<std::pair<std::string_view, E>> known,
              E& out) {
    table_.choice(key, known, out);
  }

  void window(WindowRule& out) {
    const TomlNode* value = table_.any("window");
    const bool word = value != nullptr && value->kind == TomlNode::Kind::kString;
    if (word && value->text == "none") {
      out = {};
    } else if (word && value->text == "bdp") {
      out.kind = WindowRule::Kind::kBdp;
    } else if (word && !parse_size(value->text)) {
      table_.error(value->line, "window", value->describe(),
                   "expected \"none\", \"bdp\" or a size as in \"64KiB\"");
    } else if (const auto bytes = table_.size("window")) {
      out.kind = WindowRule::Kind::kBytes;
      take("window", *bytes, bytes->value > 0, "\"none\", \"bdp\" or a size above zero", out.bytes);
    }
    const auto variable = table_.boolean("variable_window");
    if (!variable) return;
    out.variable = variable->value;
    if (out.variable && out.kind == WindowRule::Kind::kNone) {
      table_.error(variable->line, "variable_window", "true", "there is no window to vary");
    }
  }

 private:
  template <typename T, typename Out>
  void take(std::string_view key, const Located<T>& value, bool good, const std::string& allowed,
            Out& out) {
    if (good) {
      out = value.value;
    } else {
      table_.error(value.line, key, table_.any(key)->describe(), "expected " + allowed);
    }
  }

  TableReader& table_;
};

/// Reports knobs of other controllers: a clearer word than "unknown key".
void refuse_other_controllers(const TomlNode& toml, TableReader& table,
                              const ControlParameters& mine) {
  const KnobNames known = knobs_of(mine);
  for (const TomlNode& child : toml.children) {
    if (known.has(child.key)) continue;
    std::string others;
    for (const ControlPreset& preset : control_presets()) {
      const bool counted = others.find(preset.controller) != std::string::npos;
      if (counted || !knobs_of(preset.parameters).has(child.key)) continue;
      others += (others.empty() ? "" : ", ") + std::string(preset.controller);
    }
    if (others.empty()) continue;
    table.any(child.key);
    table.error(child.line, child.key, child.describe(),
                "law = \"" + std::string(controller_name(mine)) +
                    "\" has no such knob; it belongs to " + others);
  }
}

/// Reports that two knobs do not go together, at the one that the table has.
void demand(TableReader& table, bool good, std::string_view key, std::string_view other,
            const std::string& rule) {
  if (good) return;
  const std::string_view given = table.any(key) != nullptr ? key : other;
  const TomlNode* value = table.any(given);
  table.error(value->line, given, value->describe(), rule);
}

/// Parameters without an overload of their own go together whatever they are.
template <typename Parameters>
void check_together(TableReader&, const Parameters&) {}
void check_together(TableReader& table, const DcqcnParameters& p) {
  demand(table,
         p.rate_to_set_on_first_cnp.is_unlimited() || p.rate_to_set_on_first_cnp >= p.min_rate,
         "rate_to_set_on_first_cnp", "min_rate", "rate_to_set_on_first_cnp is at least min_rate");
}
void check_together(TableReader& table, const TimelyParameters& p) {
  demand(table, p.t_low <= p.t_high, "t_low", "t_high", "t_low is at most t_high");
}
void check_together(TableReader& table, const SwiftParameters& p) {
  demand(table, p.flow_scaling_min_cwnd < p.flow_scaling_max_cwnd, "flow_scaling_min_cwnd",
         "flow_scaling_max_cwnd", "flow_scaling_min_cwnd is below flow_scaling_max_cwnd");
  demand(table, p.min_cwnd <= p.max_cwnd, "min_cwnd", "max_cwnd", "min_cwnd is at most max_cwnd");
}

/// The parameters that the table's preset stands for; nothing if controller or preset is wrong.
std::optional<ControlParameters> read_preset(TableReader& table, ControlConfig& control) {
  std::vector<std::string_view> controllers;
  std::vector<std::string_view> names;
  table.require("law", "none, dcqcn, timely, dctcp, hpcc or swift");
  const auto controller = table.text("law");
  const auto preset = table.text("preset");
  if (!controller) return std::nullopt;
  for (const ControlPreset& known : control_presets()) {
    if (controllers.empty() || controllers.back() != known.controller)
      controllers.push_back(known.controller);
    if (known.controller == controller->value) names.push_back(known.name);
  }
  if (names.empty()) {
    table.unknown_word(*controller, "law", controllers);
    return std::nullopt;
  }
  control.preset = preset ? preset->value : std::string(names.front());
  const auto found = find_control_preset(controller->value, control.preset);
  if (!found || control.preset.empty()) {
    table.unknown_word(*preset, "preset", names);
    return std::nullopt;
  }
  return found;
}

void read_name(TableReader& table, const Config& config, ControlConfig& control) {
  table.require("name", "by which senders refer to it");
  const auto name = table.text("name");
  if (!name) return;
  control.name = name->value;
  if (name->value.empty()) table.error(name->line, "name", "an empty text", "expected a name");
  if (const ControlConfig* other = config.find_control(control.name)) {
    table.error(name->line, "name", "\"" + control.name + "\"",
                "the [[control]] in line " + std::to_string(other->line) + " has this name");
  }
}

void read_control(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "control", context.errors);
  ControlConfig control;
  control.line = table.line();
  read_name(table, context.config, control);
  const auto preset = read_preset(table, control);
  if (!preset) {
    // Which knobs there are is not known then.
    for (const TomlNode& child : toml.children) table.any(child.key);
  } else {
    control.parameters = *preset;
    const size_t errors = context.errors.size();
    KnobReader reader(table);
    std::visit(
        [&](auto& p) {
          visit_knobs(reader, p);
          if (context.errors.size() == errors) check_together(table, p);
        },
        control.parameters);
    if (const auto rtt = table.duration("base_rtt")) control.base_rtt = rtt->value;
    refuse_other_controllers(toml, table, control.parameters);
  }
  table.finish();
  context.config.controls.push_back(std::move(control));
}

}  // namespace

void read_controls(TableReader& root, ReadContext& context) {
  for (const TomlNode* control : root.tables("control")) read_control(*control, context);
}

}  // namespace understudy
