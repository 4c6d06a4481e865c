// How queue pairs of emulated nodes send: keys that [[service]], [[client]] and [[job]] share.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/read/sections.h"
#include "ctrl/config/suggest.h"

namespace understudy {
namespace {

void read_traffic_class(TableReader& table, SenderConfig& sender) {
  const auto traffic_class = table.integer("traffic_class", 0, 255);
  if (!traffic_class) return;
  sender.traffic_class = static_cast<uint8_t>(traffic_class->value);
  if ((sender.traffic_class & 3) == 3) {
    table.error(traffic_class->line, "traffic_class", std::to_string(traffic_class->value),
                "DSCP * 4 + ECN; ECN 3 is for switches to set, 0 is not ECN-capable, 1 and 2 are");
  }
}

/// Why a rate controller cannot steer queue pairs, whose packets are RoCEv2's; empty if it can.
std::string_view unfit(const ControlParameters& parameters) {
  if (std::holds_alternative<HpccParameters>(parameters)) {
    return "HPCC needs telemetry in its acknowledgements, which RoCEv2's do not carry; for "
           "[[traffic]] only";
  }
  const auto* dcqcn = std::get_if<DcqcnParameters>(&parameters);
  if (std::holds_alternative<DctcpParameters>(parameters) ||
      (dcqcn != nullptr && dcqcn->echo == DcqcnParameters::Echo::kAck)) {
    return "this law needs acknowledgements that echo marks, which RoCEv2's do not; for "
           "[[traffic]] only";
  }
  return {};
}

}  // namespace

const ControlConfig* find_control(TableReader& table, const ReadContext& context) {
  const auto control = table.text("control");
  if (!control) return nullptr;
  if (const ControlConfig* found = context.config.find_control(control->value)) return found;
  std::vector<std::string_view> names;
  for (const ControlConfig& known : context.config.controls) names.push_back(known.name);
  table.error(control->line, "control",
              "\"" + control->value + "\"" + suggest(control->value, names),
              "there is no [[control]] of this name");
  return nullptr;
}

void read_sender(TableReader& table, ReadContext& context, SenderConfig& sender) {
  read_traffic_class(table, sender);
  const ControlConfig* control = find_control(table, context);
  if (control == nullptr) return;
  if (const std::string_view why = unfit(control->parameters); !why.empty()) {
    const TomlNode* value = table.any("control");
    table.error(value->line, "control", value->describe(), std::string(why));
  }
  sender.control = static_cast<uint32_t>(control - context.config.controls.data());
  sender.user = static_cast<uint32_t>(context.config.control_users.size());
  context.config.control_users.push_back({"", sender.control});
}

void name_sender(TableReader& table, ReadContext& context, const SenderConfig& sender,
                 std::string name, std::span<const NodeId> nodes) {
  if (sender.control == kNoControl) return;
  context.config.control_users[sender.user].name = std::move(name);
  for (const NodeId id : nodes) {
    const NodeConfig& node = context.config.nodes[id];
    const bool limited = std::ranges::none_of(
        node.nics, [](const NicConfig& nic) { return nic.link_rate.is_unlimited(); });
    if (limited) continue;
    const TomlNode* value = table.any("control");
    table.error(value->line, "control", value->describe(),
                "the link of node " + node.name + " is unlimited: there is no rate to control");
    return;
  }
}

}  // namespace understudy
