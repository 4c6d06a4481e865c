// [[prefix]] and [[node]].
#include <algorithm>

#include "ctrl/config/read/nodes/read_machine.h"
#include "ctrl/config/read/sections.h"
#include "ctrl/config/suggest.h"

namespace understudy {
namespace {

/// What no node of a network has as its address (RFC 6890, RFC 4291).
struct NoNodes {
  const char* prefix;
  const char* what;
};
constexpr NoNodes kNoNodes[] = {{"0.0.0.0/8", "\"this network\""},      {"127.0.0.0/8", "loopback"},
                                {"224.0.0.0/4", "multicast"},           {"240.0.0.0/4", "reserved"},
                                {"::/127", "no address, and loopback"}, {"ff00::/8", "multicast"}};

const NoNodes* without_nodes(const IpPrefix& prefix) {
  const auto* const found = std::ranges::find_if(kNoNodes, [&](const NoNodes& no) {
    const IpPrefix other = IpPrefix::parse(no.prefix).value();
    return other.address.is_v4() == prefix.address.is_v4() &&
           (other.contains(prefix.address) || prefix.contains(other.address));
  });
  return found == std::end(kNoNodes) ? nullptr : found;
}

std::optional<IpPrefix> read_prefix_text(TableReader& table, std::string_view key, bool v4,
                                         ReadContext& context) {
  const auto text = table.text(key);
  if (!text) {
    if (table.any(key) != nullptr) context.addresses_complete = false;
    return std::nullopt;
  }
  const auto wrong = [&](std::string allowed) {
    table.error(text->line, key, "\"" + text->value + "\"", std::move(allowed));
    context.addresses_complete = false;
    return std::nullopt;
  };
  const auto prefix = IpPrefix::parse(text->value);
  if (!prefix || prefix->address.is_v4() != v4) {
    return wrong(v4 ? "expected an IPv4 prefix as in \"10.9.0.0/16\""
                    : "expected an IPv6 prefix as in \"fd00:9::/64\"");
  }
  const auto base = prefix->host(0);
  if (base && *base != prefix->address) {
    return wrong("address bits after the prefix length must be zero: \"" +
                 IpPrefix{*base, prefix->length}.text() + "\"");
  }
  if (const NoNodes* no = without_nodes(*prefix)) {
    return wrong(std::string("nodes have no addresses in ") + no->prefix + " (" + no->what +
                 "), which it meets");
  }
  return prefix;
}

void read_prefix(const TomlNode& node, ReadContext& context) {
  TableReader table(node, "prefix", context.errors);
  const size_t errors_before = context.errors.size();
  PrefixConfig prefix;
  prefix.line = table.line();
  table.require("nic", "the index of the NIC on each node");
  if (const auto nic = table.integer("nic", 0, kMostNics - 1)) {
    prefix.nic = static_cast<unsigned>(nic->value);
    for (const PrefixConfig& other : context.config.prefixes) {
      if (other.nic != prefix.nic) continue;
      table.error(nic->line, "nic", std::to_string(prefix.nic),
                  "the prefix of this NIC is already given in line " + std::to_string(other.line));
    }
  }
  prefix.v4 = read_prefix_text(table, "v4", true, context);
  prefix.v6 = read_prefix_text(table, "v6", false, context);
  if (table.any("v4") == nullptr && table.any("v6") == nullptr) {
    table.error(table.line(), "v4", "nothing", "a prefix needs v4, v6 or both");
  }
  if (const auto vlan = table.integer("vlan", 1, 4094)) {
    prefix.vlan = static_cast<uint16_t>(vlan->value);
  }
  if (const auto pcp = table.integer("pcp", 0, 7)) {
    prefix.pcp = static_cast<uint8_t>(pcp->value);
    if (table.any("vlan") == nullptr) {
      table.error(pcp->line, "pcp", std::to_string(pcp->value),
                  "pcp stands in a tag: it needs vlan");
    }
  }
  // Host 0 is the network's own address (IPv4) or the routers' anycast address (IPv6).
  if (const auto first = table.integer("first", 1, 0x7fffffff)) {
    prefix.first = static_cast<uint32_t>(first->value);
  }
  table.finish();
  if (context.errors.size() == errors_before) {
    context.config.prefixes.push_back(prefix);
    const auto line = [&](std::string_view key) {
      const TomlNode* value = table.any(key);
      return value == nullptr ? 0 : value->line;
    };
    context.prefix_lines.push_back({line("v4"), line("v6")});
  } else {
    context.addresses_complete = false;
  }
}

/// Rate and latency of the links of a node's NICs, into `nic`.
void read_link(TableReader& node, const Machine& machine, NicConfig& nic, ReadContext& context) {
  const size_t errors_before = context.errors.size();
  node.require("link", "{ rate = \"100Gbit/s\", latency = \"1us\" }");
  const TomlNode* link = node.table("link");
  if (link == nullptr) {
    context.links_complete = false;
    return;
  }
  TableReader table(*link, "node.link", context.errors);
  if (machine.nic_rate) {
    nic.link_rate = *machine.nic_rate;
  } else {
    table.require("rate", "the rate of the node's links, as in \"100Gbit/s\"");
  }
  table.require("latency", "the one-way latency of the node's links, as in \"1us\"");
  if (const auto rate = table.rate("rate")) {
    nic.link_rate = rate->value;
    note_stated(context, machine, machine.nic_rate, rate->value, "link.rate");
  }
  if (const auto latency = table.duration("latency")) nic.link_latency = latency->value;
  table.finish();
  if (context.errors.size() != errors_before) context.links_complete = false;
}

/// GPUs, NICs and their links: as the table says, else as the node's machine has them.
void read_devices(TableReader& table, NodeConfig& node, ReadContext& context) {
  const auto named = read_machine(table, context);
  const Machine machine = named.value_or(Machine());
  node.gpus = machine.gpus.value_or(1);
  if (const auto gpus = table.integer("gpus", 1, kMostGpus)) {
    node.gpus = static_cast<unsigned>(gpus->value);
    note_stated(context, machine, machine.gpus, node.gpus, "gpus");
  }
  unsigned nics = machine.nics.value_or(1);
  if (named && !machine.nics) {
    table.require("nics", "the number of NICs, which " + machine.name + " leaves open");
  }
  if (const auto stated = table.integer("nics", 1, kMostNics)) {
    nics = static_cast<unsigned>(stated->value);
    note_stated(context, machine, machine.nics, nics, "nics");
  }
  NicConfig nic;
  read_link(table, machine, nic, context);
  nic.limits = read_node_nic(table, context);
  node.nics.assign(nics, nic);
}

/// The address and MAC that a table gives to its only NIC.
void read_overrides(TableReader& table, bool single, NodeGroup& group) {
  constexpr std::string_view kSingle = "only for a node with count = 1 and nics = 1";
  if (const auto text = table.text("address")) {
    const auto address = IpAddress::parse(text->value);
    if (!address) {
      table.error(text->line, "address", "\"" + text->value + "\"", "expected an IP address");
    } else if (!single) {
      table.error(text->line, "address", "\"" + text->value + "\"", std::string(kSingle));
    } else {
      group.address = {*address, text->line};
    }
  }
  if (const auto text = table.text("mac")) {
    const auto mac = MacAddress::parse(text->value);
    if (!mac || mac->is_multicast() || *mac == MacAddress{}) {
      table.error(text->line, "mac", "\"" + text->value + "\"",
                  "expected a unicast MAC address as in \"52:54:00:0a:09:01\"");
    } else if (!single) {
      table.error(text->line, "mac", "\"" + text->value + "\"", std::string(kSingle));
    } else {
      group.mac = {*mac, text->line};
    }
  }
}

/// Appends the group's nodes; a name that exists is reported once per group.
void expand(TableReader& table, const NodeGroup& group, NodeConfig node, ReadContext& context) {
  bool reported = false;
  for (uint32_t i = 0; i < group.count; ++i) {
    node.index = group.first + i;
    node.name = group.count == 1 ? group.name : group.name + std::to_string(i);
    const auto [other, is_new] = context.node_by_name.emplace(node.name, node.index);
    if (!is_new && !reported) {
      const unsigned line = context.config.nodes[other->second].line;
      table.error(table.any("name")->line, "name", "\"" + node.name + "\"",
                  "two nodes have this name; the other is defined in line " + std::to_string(line));
      reported = true;
    }
    context.config.nodes.push_back(node);
  }
}

/// What a reference node of simulate can play.
bool may_have_nic(const NodeConfig& node) {
  return !node.kernel && std::ranges::all_of(node.nics, [](const NicConfig& nic) {
    return nic.limits.acks_wait() && !nic.limits.packets.any() &&
           nic.limits.lead + nic.limits.tail + nic.limits.ack_delay == Duration();
  });
}

void read_node(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "node", context.errors);
  NodeGroup group;
  group.line = table.line();
  group.first = static_cast<NodeId>(context.config.nodes.size());
  NodeConfig node;
  node.line = table.line();

  table.require("name", "a name of letters, digits, '-', '_' and '.'");
  if (const auto name = table.text("name")) {
    if (is_name(name->value)) {
      group.name = name->value;
    } else {
      table.error(name->line, "name", table.any("name")->describe(),
                  "expected up to 63 letters, digits, '-', '_' and '.'");
    }
  }
  if (table.any("count") == nullptr) {
    group.count = 1;
  } else if (const auto count = table.integer("count", 1, kMostNodes)) {
    group.count = static_cast<uint32_t>(count->value);
    if (group.first + group.count > kMostNodes) {
      table.error(count->line, "count", std::to_string(group.count),
                  "all nodes together may be at most " + std::to_string(kMostNodes));
      group.count = 0;
    }
  }
  read_devices(table, node, context);
  if (const TomlNode* real = table.any("real");
      real != nullptr && real->kind == TomlNode::Kind::kTable) {
    node.real = true;
    node.kernel = read_kernel(*real, context);
  } else if (const auto on_wire = table.boolean("real")) {
    node.real = on_wire->value;
  }
  const TomlNode* nic = table.any("nic");
  if (nic != nullptr && node.real && !may_have_nic(node)) {
    table.error(nic->line, "nic", nic->describe(),
                "a real node has a NIC of its own; of a reference node a [[nic]] says how its "
                "acknowledgements leave (acks, ahead, again, ack_every), and no more");
  }
  read_overrides(table, group.count <= 1 && node.nics.size() == 1, group);
  table.finish();

  if (group.name.empty() || group.count == 0) {
    context.nodes_complete = false;
    return;
  }
  expand(table, group, std::move(node), context);
  context.groups.push_back(std::move(group));
}

}  // namespace

bool is_name(std::string_view name) {
  constexpr size_t kLongestName = 63;  // a host name's limit
  return !name.empty() && name.size() <= kLongestName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

const NodeConfig* ReadContext::resolve(TableReader& table, std::string_view key,
                                       const Located<std::string>& name) {
  const auto found = node_by_name.find(name.value);
  if (found != node_by_name.end()) return &config.nodes[found->second];
  if (nodes_complete) {
    std::vector<std::string_view> names;
    for (const NodeConfig& node : config.nodes) names.push_back(node.name);
    table.error(name.line, key, "\"" + name.value + "\"" + suggest(name.value, names),
                "there is no node of this name");
  }
  return nullptr;
}

std::vector<NodeId> ReadContext::resolve_all(TableReader& table, std::string_view key,
                                             const Located<std::string>& name) {
  if (!name.value.ends_with('*')) {
    const NodeConfig* node = resolve(table, key, name);
    return node == nullptr ? std::vector<NodeId>{} : std::vector<NodeId>{node->index};
  }
  const std::string_view wanted = std::string_view(name.value).substr(0, name.value.size() - 1);
  std::vector<std::string_view> known;
  for (const NodeGroup& group : groups) {
    known.push_back(group.name);
    if (group.name != wanted) continue;
    std::vector<NodeId> nodes(group.count);
    for (uint32_t i = 0; i < group.count; ++i) nodes[i] = group.first + i;
    return nodes;
  }
  if (nodes_complete) {
    table.error(name.line, key, "\"" + name.value + "\"" + suggest(wanted, known),
                "there is no [[node]] of this name");
  }
  return {};
}

namespace {

/// Whether the file tells of a training job and of nothing that nodes take part in.
bool is_model_alone(TableReader& root) {
  const auto has = [&](const char* key) { return root.any(key) != nullptr; };
  constexpr const char* kModel[] = {"model", "parallel", "gpu", "operations"};
  constexpr const char* kOfNodes[] = {"topology", "intra_node", "port",  "service", "client",
                                      "job",      "traffic",    "fault", "event",   "drill"};
  return std::ranges::any_of(kModel, has) && std::ranges::none_of(kOfNodes, has);
}

}  // namespace

void read_nodes(TableReader& root, ReadContext& context) {
  for (const TomlNode* prefix : root.tables("prefix")) read_prefix(*prefix, context);
  const auto nodes = root.tables("node");
  if (nodes.empty()) {
    if (!is_model_alone(root)) {
      root.require("node", "a configuration needs at least one [[node]]");
    }
    context.nodes_complete = false;
  }
  for (const TomlNode* node : nodes) read_node(*node, context);
}

}  // namespace understudy
