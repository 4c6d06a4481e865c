// [queues]: buffers, classes, PFC and ECN of switches; [flows]: frames of [[traffic]].
#include <algorithm>
#include <bit>
#include <string>

#include "ctrl/config/read/sections.h"
#include "ctrl/config/units_text.h"

namespace understudy {
namespace {

constexpr uint64_t kMostBuffer = uint64_t{1} << 40;

std::optional<uint64_t> size_between(TableReader& table, std::string_view key, uint64_t least,
                                     uint64_t most) {
  const auto value = table.size(key);
  if (!value) return std::nullopt;
  if (value->value >= least && value->value <= most) return value->value;
  table.error(value->line, key, table.any(key)->describe(),
              "expected " + std::to_string(least) + "B to " + std::to_string(most) + "B");
  return std::nullopt;
}

void frame_size(TableReader& table, std::string_view key, uint32_t least, uint32_t& out) {
  if (const auto bytes = size_between(table, key, least, 65'536)) {
    out = static_cast<uint32_t>(*bytes);
  }
}

std::optional<double> positive(TableReader& table, std::string_view key, double most,
                               const std::string& allowed) {
  const auto value = table.number(key);
  if (!value) return std::nullopt;
  if (value->value > 0 && value->value <= most) return value->value;
  table.error(value->line, key, table.any(key)->describe(), "expected " + allowed);
  return std::nullopt;
}

/// The tables of an array, or a table alone.
std::vector<const TomlNode*> one_or_more(TableReader& table, std::string_view key) {
  const TomlNode* value = table.any(key);
  if (value == nullptr) return {};
  if (value->kind == TomlNode::Kind::kTable) return {value};
  return table.tables(key);
}

/// xoff and xon, which go together and replace what is dynamic.
void read_fixed_thresholds(TableReader& table, PfcSettings& pfc) {
  const auto xoff = size_between(table, "xoff", 1, kMostBuffer);
  const auto xon = size_between(table, "xon", 1, kMostBuffer);
  if (xoff) pfc.xoff = *xoff;
  if (xon) pfc.xon = *xon;
  const TomlNode* one = table.any("xoff") != nullptr ? table.any("xoff") : table.any("xon");
  if (one == nullptr) return;
  if (!table.require("xoff", "goes with xon") || !table.require("xon", "goes with xoff")) return;
  if (xoff && xon && *xon > *xoff) {
    table.error(one->line, "xon", table.any("xon")->describe(), "expected at most xoff");
  }
  for (const char* key : {"alpha", "resume_offset", "resume_floor"}) {
    if (const TomlNode* other = table.any(key)) {
      table.error(other->line, key, other->describe(), "has no meaning beside xoff and xon");
    }
  }
}

void read_pfc(const TomlNode& node, ReadContext& context, PfcSettings& pfc) {
  TableReader table(node, "queues.class.pfc", context.errors);
  if (const auto alpha = positive(table, "alpha", 1024, "a factor above 0 and at most 1024")) {
    pfc.alpha = *alpha;
  }
  read_fixed_thresholds(table, pfc);
  const TomlNode* headroom = table.any("headroom");
  if (headroom == nullptr) {
    table.require("headroom",
                  "PFC without headroom loses packets: \"auto\", a size, or a list of "
                  "{ rate, size }");
  } else if (headroom->kind == TomlNode::Kind::kArray) {
    for (const TomlNode* entry : table.tables("headroom")) {
      TableReader row(*entry, "queues.class.pfc.headroom", context.errors);
      row.require("rate", "the rate of the links that it is for");
      row.require("size", "bytes for each ingress port and class");
      const auto rate = row.rate("rate");
      const auto size = size_between(row, "size", 1, kMostBuffer);
      if (rate && size) pfc.headroom_by_rate.emplace_back(rate->value, *size);
      row.finish();
    }
  } else if (headroom->kind == TomlNode::Kind::kString && headroom->text == "auto") {
    pfc.headroom_by_link = true;
  } else if (const auto size = size_between(table, "headroom", 1, kMostBuffer)) {
    pfc.headroom = *size;
  }
  if (const auto size = size_between(table, "resume_offset", 0, kMostBuffer)) {
    pfc.resume_offset = *size;
  }
  if (const auto size = size_between(table, "resume_floor", 0, kMostBuffer)) {
    pfc.resume_floor = *size;
  }
  table.finish();
}

EcnSettings read_ecn(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "queues.class.ecn", context.errors);
  EcnSettings ecn;
  for (const char* key : {"kmin", "kmax", "pmax"}) {
    table.require(key, "marking begins at kmin, has probability pmax at kmax, and is sure above");
  }
  if (const auto rate = table.rate("rate")) ecn.rate = rate->value;
  const auto kmin = table.size("kmin"), kmax = table.size("kmax");
  if (kmin) ecn.kmin = kmin->value;
  if (kmax) ecn.kmax = kmax->value;
  if (kmin && kmax && ecn.kmax < ecn.kmin) {
    table.error(kmax->line, "kmax", table.any("kmax")->describe(), "expected at least kmin");
  }
  const uint64_t buffer = context.config.queues.network.buffer;
  if (kmax && buffer != 0 && ecn.kmax > buffer) {
    table.error(kmax->line, "kmax", table.any("kmax")->describe(),
                "expected at most queues.buffer: no queue ever grows to it");
  }
  if (const auto p = positive(table, "pmax", 1, "a probability above 0")) ecn.pmax = *p;
  table.finish();
  return ecn;
}

void read_priorities(TableReader& table, ClassSettings& c) {
  const TomlNode* list = table.any("priorities");
  if (list == nullptr) return;
  c.priorities = 0;
  const bool array = list->kind == TomlNode::Kind::kArray;
  bool good = array && !list->children.empty();
  for (const TomlNode& value : list->children) {
    const bool fits = value.kind == TomlNode::Kind::kInteger && value.integer >= 0 &&
                      value.integer < static_cast<int64_t>(kPriorities);
    good = good && fits;
    if (fits) c.priorities |= static_cast<uint8_t>(1u << value.integer);
  }
  if (!good) {
    table.error(list->line, "priorities", list->describe(), "expected a list of numbers 0 to 7");
  }
}

void read_class(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "queues.class", context.errors);
  ClassSettings c;
  c.priorities = 0;
  read_priorities(table, c);
  bool strict = false;
  table.choice("scheduling", {{"weighted", false}, {"strict", true}}, strict);
  if (const auto weight = table.integer("weight", 1, 1000)) {
    c.weight = static_cast<uint32_t>(weight->value);
    if (strict)
      table.error(weight->line, "weight", std::to_string(c.weight), "a strict class has none");
  }
  if (strict) c.weight = 0;
  if (const TomlNode* pfc = table.table("pfc")) read_pfc(*pfc, context, c.pfc.emplace());
  if (const auto alpha =
          positive(table, "egress_alpha", 1024, "a factor above 0 and at most 1024")) {
    c.egress_alpha = *alpha;
    if (c.pfc) {
      const TomlNode* value = table.any("egress_alpha");
      table.error(value->line, "egress_alpha", value->describe(), "a class with pfc has none");
    }
  }
  for (const TomlNode* ecn : one_or_more(table, "ecn")) c.ecn.push_back(read_ecn(*ecn, context));
  table.finish();
  context.config.queues.network.classes.push_back(c);
}

/// Every priority in exactly one class; a class that names none has all others.
void complete_classes(TableReader& table, ReadContext& context) {
  std::vector<ClassSettings>& classes = context.config.queues.network.classes;
  unsigned taken = 0;
  ClassSettings* rest = nullptr;
  for (ClassSettings& c : classes) {
    if ((taken & c.priorities) != 0 || (c.priorities == 0 && rest != nullptr)) {
      table.error(table.line(), "class", "", "two classes have the same priorities");
    }
    taken |= c.priorities;
    if (c.priorities == 0) rest = &c;
  }
  if (rest != nullptr) {
    rest->priorities = static_cast<uint8_t>(~taken);
    if (rest->priorities == 0)
      table.error(table.line(), "class", "", "a class has no priority left");
  } else if (!classes.empty() && taken != 0xff) {
    table.error(table.line(), "class", "",
                "priority " + std::to_string(std::countr_one(taken)) + " is in no class");
  }
}

PfcWatchdog read_watchdog(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "queues.pfc_watchdog", context.errors);
  PfcWatchdog watchdog;
  const auto time = [&](std::string_view key, Duration& out) {
    const auto value = table.duration(key);
    if (!value) return;
    out = value->value;
    if (out > Duration()) return;
    table.error(value->line, key, table.any(key)->describe(), "expected some time");
  };
  time("poll", watchdog.poll);
  time("restore", watchdog.restore);
  if (const auto n = table.integer("polls", 1, 1000)) {
    watchdog.polls = static_cast<uint32_t>(n->value);
  }
  table.choice("action", {{"drop", false}, {"forward", true}}, watchdog.forward);
  table.finish();
  return watchdog;
}

void read_switches(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "queues", context.errors);
  context.config.queues.given = true;
  NetworkSettings& network = context.config.queues.network;
  if (const auto buffer = size_between(table, "buffer", 1, kMostBuffer)) network.buffer = *buffer;
  frame_size(table, "pfc_frame", 1, network.pfc_frame_bytes);
  for (const TomlNode* c : table.tables("class")) read_class(*c, context);
  if (network.classes.size() > kPriorities) {
    table.error(table.line(), "class", "", "expected at most 8 classes");
  }
  complete_classes(table, context);
  if (const TomlNode* watchdog = table.table("pfc_watchdog")) {
    network.watchdog = read_watchdog(*watchdog, context);
    const auto has_pfc = [](const ClassSettings& c) { return c.pfc.has_value(); };
    if (std::ranges::none_of(network.classes, has_pfc)) {
      table.error(watchdog->line, "pfc_watchdog", "a watchdog", "no class has pfc");
    }
  }
  read_priority_map(table, context);
  table.finish();
}

void read_flows(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "flows", context.errors);
  FlowSettings& flows = context.config.queues.flows;
  frame_size(table, "payload", 1, flows.payload);
  frame_size(table, "overhead", 0, flows.overhead);
  frame_size(table, "gap", 0, flows.gap);
  frame_size(table, "ack", 1, flows.ack_bytes);
  frame_size(table, "cnp", 1, flows.cnp_bytes);
  if (const auto n = table.integer("ack_every", 1, 65'536)) {
    flows.ack_every = static_cast<uint32_t>(n->value);
  }
  if (const auto p = table.integer("ack_priority", 0, kPriorities - 1)) {
    flows.ack_priority = static_cast<uint8_t>(p->value);
  }
  if (const auto p = table.integer("cnp_priority", 0, kPriorities - 1)) {
    flows.cnp_priority = static_cast<uint8_t>(p->value);
  }
  if (const auto gap = table.boolean("rate_counts_gap")) flows.rate_counts_gap = gap->value;
  if (const auto time = table.duration("catch_up")) flows.catch_up = time->value;
  if (const auto timeout = table.duration("timeout")) flows.timeout = timeout->value;
  if (const auto n = table.integer("retries", 0, 65'536)) {
    flows.retries = static_cast<uint32_t>(n->value);
  }
  table.finish();
}

}  // namespace

void read_queues(TableReader& root, ReadContext& context) {
  if (const TomlNode* queues = root.table("queues")) read_switches(*queues, context);
  if (const TomlNode* flows = root.table("flows")) read_flows(*flows, context);
  QueuesConfig& q = context.config.queues;
  if (q.network.classes.empty()) q.network.classes.emplace_back();
  q.network.cut_through = context.config.fabric.cut_through;
  q.network.resolution = q.flows.resolution = context.config.fabric.time_resolution;
  q.network.full_packet_bytes = q.flows.payload + q.flows.overhead + q.flows.gap;
}

}  // namespace understudy
