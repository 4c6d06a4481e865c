// The lists of [topology]: switches and cables one by one, overrides of links, static routes. Names
// are resolved where the graph is built (ctrl/topology/topology.h).
#include <algorithm>

#include "ctrl/config/read/read_topology.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr int64_t kMostListed = 1'024;

/// A required text; empty, and reported, if it is not there.
std::string need_text(TableReader& table, std::string_view key, std::string allowed) {
  table.require(key, std::move(allowed));
  const auto text = table.text(key);
  if (!text) return {};
  if (text->value.empty()) table.error(text->line, key, "an empty text", "expected a name");
  return text->value;
}

/// [{ from = "1ms", to = "2ms" }]: in order of time, apart.
std::vector<GraphLink::Outage> read_outages(TableReader& table, ErrorList& errors) {
  std::vector<GraphLink::Outage> down;
  for (const TomlNode* toml : table.tables("down")) {
    TableReader entry(*toml, table.path("down"), errors);
    GraphLink::Outage outage{Time::zero(), Time::never()};
    if (const auto from = entry.duration("from")) outage.from = Time::zero() + from->value;
    const auto to = entry.duration("to");
    if (to) outage.to = Time::zero() + to->value;
    entry.finish();
    if (outage.to <= outage.from) {
      entry.error(to->line, "to", entry.any("to")->describe(), "must be later than from");
    } else if (!down.empty() && outage.from <= down.back().to) {
      entry.error(entry.line(), "from", "an outage that begins before the one before it has ended",
                  "outages stand in order of time, apart");
    } else {
      down.push_back(outage);
    }
  }
  return down;
}

LinkOverrideConfig read_override(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "topology.override", context.errors);
  LinkOverrideConfig change;
  change.line = table.line();
  table.require("link", "\"leaf0 -> spine1\", or \"leaf0 - spine1\" for both directions");
  if (const auto link = table.text("link")) {
    if (auto name = parse_link_name(link->value)) {
      change.link = std::move(*name);
      change.line = link->line;
    } else {
      table.error(link->line, "link", "\"" + link->value + "\"",
                  "expected \"leaf0 -> spine1\", or \"leaf0 - spine1\" for both directions");
    }
  }
  if (const auto rate = table.rate("rate")) {
    change.rate = rate->value;
    require_limited(table, "rate", *rate);
  }
  if (const auto latency = table.duration("latency")) change.latency = latency->value;
  if (const auto loss = table.number("loss")) {
    if (loss->value >= 0 && loss->value <= 1) {
      change.loss = loss->value;
    } else {
      table.error(loss->line, "loss", table.any("loss")->describe(),
                  "expected a probability from 0 to 1");
    }
  }
  change.down = read_outages(table, context.errors);
  const std::string_view keys[] = {"rate", "latency", "loss", "down"};
  if (std::none_of(std::begin(keys), std::end(keys),
                   [&](std::string_view key) { return table.any(key) != nullptr; })) {
    table.error(table.line(), "link", "nothing to change",
                "an override needs rate, latency, loss or down");
  }
  table.finish();
  return change;
}

}  // namespace

void read_topology_graph(TableReader& root, TopologyConfig& topology, ReadContext& context) {
  for (const TomlNode* toml : root.tables("switch")) {
    TableReader table(*toml, "topology.switch", context.errors);
    SwitchConfig one;
    one.line = table.line();
    one.name = need_text(table, "name", "the name of the switch");
    if (!one.name.empty() && !is_name(one.name)) {
      table.error(table.any("name")->line, "name", table.any("name")->describe(),
                  "expected up to 63 letters, digits, '-', '_' and '.'");
    }
    if (const auto tier = table.integer("tier", 1, 7)) one.tier = static_cast<uint8_t>(tier->value);
    table.finish();
    topology.switches.push_back(std::move(one));
  }
  root.require("link", "[[topology.link]]: the cables");
  for (const TomlNode* toml : root.tables("link")) {
    TableReader table(*toml, "topology.link", context.errors);
    CableConfig cable;
    cable.line = table.line();
    cable.a = need_text(table, "a", "one end: a switch, or a NIC as in \"w0\" or \"w0:1\"");
    cable.b = need_text(table, "b", "the other end: a switch, or a NIC");
    if (const auto rate = table.rate("rate")) {
      cable.rate = rate->value;
      require_limited(table, "rate", *rate);
    }
    if (const auto latency = table.duration("latency")) cable.latency = latency->value;
    if (const auto count = table.integer("count", 1, kMostListed)) {
      cable.count = static_cast<uint32_t>(count->value);
    }
    table.finish();
    topology.cables.push_back(std::move(cable));
  }
}

void read_link_overrides(TableReader& root, TopologyConfig& topology, ReadContext& context) {
  for (const TomlNode* toml : root.tables("override")) {
    topology.overrides.push_back(read_override(*toml, context));
  }
}

void read_static_routes(TableReader& root, TopologyConfig& topology, ReadContext& context) {
  for (const TomlNode* toml : root.tables("route")) {
    TableReader table(*toml, "topology.route", context.errors);
    StaticRouteConfig route;
    route.line = table.line();
    route.from = need_text(table, "from", "a NIC, or a pattern as in \"w*\"");
    route.to = need_text(table, "to", "a NIC, or a pattern as in \"w*\"");
    table.require("via", "every switch on the way, as in [\"leaf0\", \"spine1\", \"leaf3\"]");
    if (const auto via = table.texts("via")) {
      for (const Located<std::string>& name : *via) route.via.push_back(name.value);
      if (via->empty()) {
        table.error(table.any("via")->line, "via", "an empty array",
                    "expected every switch on the way");
      }
    }
    table.finish();
    topology.routes.push_back(std::move(route));
  }
}

}  // namespace understudy
