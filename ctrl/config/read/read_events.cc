// [[event]]: what happens to links, nodes and [[traffic]] during the run.
#include <algorithm>
#include <string>

#include "ctrl/config/events/events_text.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

class EventReader {
 public:
  EventReader(const TomlNode& toml, std::string path, ReadContext& context)
      : table_(toml, std::move(path), context.errors), context_(context) {
    event_.line = table_.line();
  }

  std::optional<EventConfig> run() {
    const size_t errors = context_.errors.size();
    table_.require("at", "the time since the start of the run, as in \"20ms\"");
    if (const auto at = table_.duration("at")) event_.at = Time::zero() + at->value;
    read_action();
    read_subject();
    read_changes();
    table_.finish();
    if (!complete_ || context_.errors.size() != errors) return std::nullopt;
    return event_;
  }

 private:
  void read_action() {
    std::optional<EventAction> action;
    table_.choice_among("action", kEventActions, action);
    event_.action = action;
    action_known_ = action || table_.any("action") == nullptr;
    const TomlNode* lasts = table_.any("for");
    if (lasts == nullptr) return;
    if (const auto time = table_.duration("for")) event_.lasts = time->value;
    if (action_known_ && action != EventAction::kDown && action != EventAction::kPause &&
        action != EventAction::kStorm) {
      table_.error(lasts->line, "for", lasts->describe(),
                   "belongs to action = \"down\" and \"pause\", and to \"storm\"");
    } else if (event_.lasts == Duration()) {
      table_.error(lasts->line, "for", lasts->describe(), "expected some time");
    }
  }

  bool is_given(std::string_view key) { return table_.any(key) != nullptr; }

  /// What the action is of; of links, where one is given by another name too, that.
  std::string_view subject() {
    if (event_.is_of_node()) return "node";
    if (event_.is_of_traffic()) return "traffic";
    const bool of_ports = event_.action == EventAction::kDown || event_.action == EventAction::kUp;
    if (of_ports && is_given("switch")) return "switch";
    if (((of_ports && is_given("nic")) || event_.is_storm()) && is_given("node")) return "node";
    return "link";
  }

  /// Key and kind of what it is about; no other key of the four may be there.
  void read_subject() {
    if (!action_known_) {  // whose it would be is not known either
      for (const std::string_view key : {"link", "node", "traffic", "switch", "nic"}) {
        table_.any(key);
      }
      return;
    }
    const std::string_view key = subject();
    for (const std::string_view other : {"link", "node", "traffic", "switch"}) {
      const TomlNode* found = table_.any(other);
      if (found == nullptr || other == key) continue;
      table_.error(found->line, other, found->describe(),
                   other == "node"      ? "needs action = \"pause\" or \"resume\""
                   : other == "traffic" ? "needs action = \"start\" or \"stop\""
                   : other == "switch"  ? "needs action = \"down\" or \"up\""
                                        : "this action is not one of links");
    }
    table_.require(key, key == "link"   ? "a node, for all its links, or \"leaf0 - spine1\""
                        : key == "node" ? "the name of an emulated node"
                                        : "the name of a [[traffic]], or its number");
    const auto name = table_.text(key);
    if (!name) return;
    if (key == "traffic") return read_traffic_name(*name);
    if (key == "switch") event_.of_switch = name->value;
    if (key == "link") event_.link = parse_link_name(name->value);
    if (event_.link || event_.of_switch) return;
    const NodeConfig* node = context_.resolve(table_, key, *name);
    complete_ = node != nullptr;
    if (node == nullptr) return;
    event_.node = node->index;
    if (key == "node" && !event_.is_of_node()) read_nic(*node);
  }

  /// Of a node's NICs one; or, of a storm, all.
  void read_nic(const NodeConfig& node) {
    const auto nic = table_.integer("nic", 0, static_cast<int64_t>(node.nics.size()) - 1);
    if (nic) event_.nic = static_cast<uint32_t>(nic->value);
  }

  void read_traffic_name(const Located<std::string>& name) {
    const auto found = find_traffic(context_.config, name.value);
    if (found) {
      event_.traffic = *found;
    } else {
      table_.error(name.line, "traffic", "\"" + name.value + "\"", found.error().text);
    }
  }

  void read_storm() {
    for (const std::string_view key : {"priority", "quanta"}) {
      const TomlNode* value = table_.any(key);
      if (value == nullptr || event_.is_storm() || !action_known_) continue;
      table_.error(value->line, key, value->describe(), "belongs to action = \"storm\"");
    }
    if (const auto p = table_.integer("priority", 0, kPriorities - 1)) {
      event_.priority = static_cast<uint8_t>(p->value);
    }
    if (const auto n = table_.integer("quanta", 1, 65'535)) {
      event_.quanta = static_cast<uint32_t>(n->value);
    }
  }

  void read_changes() {
    read_storm();
    const bool links =
        !event_.is_of_node() && !event_.is_of_traffic() && !event_.of_switch && !event_.is_storm();
    bool any = event_.action.has_value() || table_.any("action") != nullptr;
    for (const std::string_view key : {"rate", "latency", "loss"}) {
      const TomlNode* value = table_.any(key);
      any = any || value != nullptr;
      if (value != nullptr && !links) {
        table_.error(value->line, key, value->describe(), "belongs to links");
      }
    }
    if (!any) {
      table_.error(table_.line(), "rate", "nothing",
                   "an event needs rate, latency, loss or an action");
    }
    if (const auto rate = table_.rate("rate")) event_.rate = rate->value;
    if (const auto latency = table_.duration("latency")) event_.latency = latency->value;
    if (const auto loss = table_.number("loss")) {
      event_.loss = loss->value;
      if (loss->value >= 0 && loss->value <= 1) return;
      table_.error(loss->line, "loss", table_.any("loss")->describe(),
                   "expected a probability from 0 to 1");
    }
  }

  TableReader table_;
  ReadContext& context_;
  EventConfig event_;
  bool complete_ = true;  ///< its node is known
  bool action_known_ = true;
};

}  // namespace

std::optional<EventConfig> read_event(const TomlNode& toml, std::string path,
                                      ReadContext& context) {
  return EventReader(toml, std::move(path), context).run();
}

void read_events(TableReader& root, ReadContext& context) {
  for (const TomlNode* event : root.tables("event")) {
    if (const auto read = read_event(*event, "event", context)) {
      context.config.events.push_back(*read);
    }
  }
  read_drills(root, context);
  std::ranges::stable_sort(context.config.events, {}, &EventConfig::at);
}

}  // namespace understudy
