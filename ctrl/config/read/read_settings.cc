// format, seed, [fidelity], [fabric] and [limits].
#include <algorithm>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

void read_fidelity(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "fidelity", context.errors);
  FidelityConfig& fidelity = context.config.fidelity;
  if (const auto tolerance = table.number("tolerance")) {
    if (tolerance->value > 0 && tolerance->value <= 1) {
      fidelity.tolerance = tolerance->value;
    } else {
      table.error(tolerance->line, "tolerance", table.any("tolerance")->describe(),
                  "expected a share of modelled time above 0 and at most 1");
    }
  }
  table.choice("idle", {{"spin", IdleMode::kSpin}, {"sleep", IdleMode::kSleep}}, fidelity.idle);
  table.choice(
      "verify_icrc",
      {{"full", IcrcVerify::kFull}, {"sampled", IcrcVerify::kSampled}, {"off", IcrcVerify::kOff}},
      fidelity.verify_icrc);
  table.finish();
}

void read_fabric(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "fabric", context.errors);
  FabricConfig& fabric = context.config.fabric;
  table.choice("fidelity", {{"packet", FabricFidelity::kPacket}, {"flow", FabricFidelity::kFlow}},
               fabric.fidelity);
  if (const TomlNode* mtu = table.any("mtu")) {
    constexpr int64_t kMtus[] = {256, 512, 1024, 2048, 4096};
    if (mtu->kind == TomlNode::Kind::kInteger && std::ranges::count(kMtus, mtu->integer) != 0) {
      fabric.mtu = static_cast<uint32_t>(mtu->integer);
    } else {
      table.error(mtu->line, "mtu", mtu->describe(),
                  "expected a path MTU of 256, 512, 1024, 2048 or 4096");
    }
  }
  table.choice("switching", {{"cut-through", true}, {"store-and-forward", false}},
               fabric.cut_through);
  if (const auto unit = table.duration("time_resolution")) fabric.time_resolution = unit->value;
  table.choice("control_class",
               {{"shared", ControlClass::kShared}, {"separate", ControlClass::kSeparate}},
               fabric.control_class);
  if (const auto through = table.texts("through")) {
    for (const Located<std::string>& protocol : *through) {
      if (protocol.value == "icmp") {
        fabric.icmp_through = true;
      } else {
        table.unknown_word(protocol, "through", {"icmp"});
      }
    }
  }
  if (const auto pacing = table.boolean("pacing")) fabric.pacing = pacing->value;
  table.choice("udp_source_port",
               {{"linux", UdpSourcePort::kLinux},
                {"random", UdpSourcePort::kRandom},
                {"fixed", UdpSourcePort::kFixed}},
               fabric.udp_source_port);
  if (const auto on = table.boolean("cnp")) fabric.cnp.on = on->value;
  if (const auto interval = table.duration("cnp_interval")) fabric.cnp.interval = interval->value;
  if (const auto dscp = table.integer("cnp_dscp", 0, 63)) {
    fabric.cnp.dscp = static_cast<uint8_t>(dscp->value);
  }
  if (const auto pcp = table.integer("cnp_pcp", 0, 7)) {
    fabric.cnp.pcp = static_cast<uint8_t>(pcp->value);
  }
  table.finish();
}

void read_limits(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "limits", context.errors);
  LimitsConfig& limits = context.config.limits;
  // What the local queue pair numbers and rkeys have room for; a packet takes about 10 KB.
  constexpr int64_t kMostQueuePairs = (int64_t{1} << kQpnShardShift) - kFirstQpn;
  constexpr int64_t kMostRegions = (int64_t{1} << 24) - 2;
  constexpr int64_t kLeastPackets = 64, kMostPackets = int64_t{1} << 20;
  if (const auto n = table.integer("packets", kLeastPackets, kMostPackets)) {
    limits.packets = static_cast<uint32_t>(n->value);
  }
  if (const auto n = table.integer("queue_pairs", 1, kMostQueuePairs)) {
    limits.queue_pairs = static_cast<uint32_t>(n->value);
  }
  if (const auto n = table.integer("regions", 1, kMostRegions)) {
    limits.regions = static_cast<uint32_t>(n->value);
  }
  table.finish();
}

}  // namespace

void read_format(TableReader& root) {
  constexpr const char* kAllowed = "this version reads format = 1";
  root.require("format", kAllowed);
  const TomlNode* format = root.any("format");
  if (format == nullptr) return;
  if (format->kind == TomlNode::Kind::kInteger && format->integer == 1) return;
  root.error(format->line, "format", format->describe(), kAllowed);
}

void read_settings(TableReader& root, ReadContext& context) {
  read_format(root);
  if (const auto seed = root.integer("seed", 0, kLargestSeed)) {
    context.config.seed = static_cast<uint64_t>(seed->value);
  }
  if (const TomlNode* fidelity = root.table("fidelity")) read_fidelity(*fidelity, context);
  if (const TomlNode* fabric = root.table("fabric")) read_fabric(*fabric, context);
  if (const TomlNode* limits = root.table("limits")) read_limits(*limits, context);
}

}  // namespace understudy
