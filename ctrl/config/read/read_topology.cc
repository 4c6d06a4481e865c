// [topology] of the regular kinds, and [intra_node].
#include <algorithm>
#include <charconv>

#include "ctrl/config/read/nodes/read_machine.h"
#include "ctrl/config/read/read_topology.h"
#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr int64_t kMostSwitches = 65'536;
constexpr int64_t kMostParallel = 1'024;

class TopologyReader {
 public:
  TopologyReader(const TomlNode& toml, ReadContext& context)
      : table_(toml, "topology", context.errors), context_(context) {
    topology_.line = table_.line();
  }

  void run() {
    const size_t errors_before = context_.errors.size();
    table_.require("kind", "\"leaf_spine\", \"fat_tree\", \"graph\" ...");
    std::optional<TopologyKind> kind;
    table_.choice_among("kind", kTopologyKinds, kind);
    if (!kind) return;  // which keys belong here is not known
    topology_.kind = *kind;
    for (const NodeConfig& node : context_.config.nodes) nics_ += node.nics.size();
    read_kind();
    read_routing();
    read_link_overrides(table_, topology_, context_);
    read_static_routes(table_, topology_, context_);
    table_.finish();
    check_rates();
    if (context_.errors.size() == errors_before) context_.config.topology = std::move(topology_);
  }

 private:
  void read_kind() {
    switch (topology_.kind) {
      case TopologyKind::kSingleSwitch:
        return;
      case TopologyKind::kLeafSpine:
      case TopologyKind::kRail:
        return read_leaf_spine();
      case TopologyKind::kFatTree:
        return read_fat_tree();
      case TopologyKind::kTorus:
      case TopologyKind::kMesh:
        return read_torus();
      case TopologyKind::kDimensions:
        return read_dimensions();
      case TopologyKind::kGraph:
        return read_topology_graph(table_, topology_, context_);
    }
  }

  size_t nodes() const { return context_.config.nodes.size(); }

  /// A link that the kind needs.
  LinkConfig need_link(std::string_view key, std::string_view what) {
    table_.require(key, std::string(what) + ", { rate = \"100Gbit/s\", latency = \"1us\" }");
    return read_link(table_, key, context_.errors).value_or(LinkConfig{});
  }

  std::optional<Located<uint32_t>> count(std::string_view key, int64_t least, int64_t most) {
    const auto value = table_.integer(key, least, most);
    if (!value) return std::nullopt;
    return Located<uint32_t>{static_cast<uint32_t>(value->value), value->line};
  }

  void read_routing() {
    table_.choice("routing",
                  {{"ecmp", RoutingMode::kEcmp},
                   {"spray", RoutingMode::kSpray},
                   {"static", RoutingMode::kStatic},
                   {"dimension_order", RoutingMode::kDimensionOrder}},
                  topology_.routing);
    const bool grid =
        topology_.kind == TopologyKind::kTorus || topology_.kind == TopologyKind::kMesh;
    if (topology_.routing == RoutingMode::kDimensionOrder && !grid) {
      table_.error(table_.any("routing")->line, "routing", "\"dimension_order\"",
                   "only a torus or a mesh has an order of dimensions");
    }
    read_reconverge();
  }

  /// A time, or "never".
  void read_reconverge() {
    const TomlNode* value = table_.any("reconverge");
    if (value == nullptr) return;
    if (value->kind == TomlNode::Kind::kString && value->text == "never") return;
    if (const auto time = table_.duration("reconverge")) topology_.reconverge = time->value;
    if (topology_.routing == RoutingMode::kEcmp || topology_.routing == RoutingMode::kSpray) return;
    table_.error(value->line, "reconverge", value->describe(),
                 "routes that are fixed do not react: expected \"never\", or routing = \"ecmp\" or "
                 "\"spray\"");
  }

  // Leaf-spine and rail ---------------------------------------------------------------------------

  void read_leaf_spine() {
    const auto hosts = count("hosts_per_leaf", 1, kMostNodes);
    const auto leaves = count("leaves", 1, kMostSwitches);
    const auto spines = count("spines", 0, kMostSwitches);
    const auto parallel = count("links_per_spine", 1, kMostParallel);
    const auto ratio = table_.text("oversubscription");
    const bool one_leaf = spines && spines->value == 0;
    if (!one_leaf) topology_.uplink = need_link("uplink", "the link from a leaf to a spine");
    if (one_leaf && (ratio || parallel)) {
      table_.error((ratio ? ratio->line : parallel->line),
                   ratio ? "oversubscription" : "links_per_spine", "spines = 0",
                   "without spines there are no uplinks");
      return;
    }
    if (!context_.nodes_complete) return;
    if (!hosts && !leaves) {
      if (table_.any("hosts_per_leaf") == nullptr && table_.any("leaves") == nullptr) {
        table_.require("hosts_per_leaf", "how many nodes share a leaf");
      }
      return;
    }
    if (!fit_leaves(hosts, leaves)) return;
    if (spines) topology_.spines = spines->value;
    if (parallel) topology_.links_per_spine = parallel->value;
    if (ratio) {
      read_oversubscription(*ratio, spines, parallel);
    } else if (!spines && table_.any("spines") == nullptr) {
      table_.require("spines", "how many spines, or else oversubscription = \"2:1\"");
    }
    check_cables();
  }

  bool fit_leaves(const std::optional<Located<uint32_t>>& hosts,
                  const std::optional<Located<uint32_t>>& leaves) {
    const auto n = static_cast<uint32_t>(nodes());
    if (!hosts && n % leaves->value != 0) {
      table_.error(leaves->line, "leaves", std::to_string(leaves->value),
                   std::to_string(n) + " nodes do not spread evenly; give hosts_per_leaf");
      return false;
    }
    topology_.hosts_per_leaf = hosts ? hosts->value : n / leaves->value;
    const uint32_t needed = (n + topology_.hosts_per_leaf - 1) / topology_.hosts_per_leaf;
    topology_.leaves = leaves ? leaves->value : needed;
    if (topology_.leaves >= needed) return true;
    table_.error(leaves->line, "leaves", std::to_string(topology_.leaves),
                 std::to_string(n) + " nodes with hosts_per_leaf = " +
                     std::to_string(topology_.hosts_per_leaf) + " need " + std::to_string(needed));
    return false;
  }

  /// A leaf's uplinks follow from what its hosts can send: down capacity / (ratio * uplink rate).
  void read_oversubscription(const Located<std::string>& text,
                             const std::optional<Located<uint32_t>>& spines,
                             const std::optional<Located<uint32_t>>& parallel) {
    const auto wrong = [&](std::string allowed) {
      table_.error(text.line, "oversubscription", "\"" + text.value + "\"", std::move(allowed));
    };
    uint64_t down = 0, up = 0;
    if (!parse_ratio(text.value, down, up)) {
      return wrong("expected down to up capacity of a leaf, as in \"2:1\"");
    }
    if (spines && parallel) {
      return wrong("follows from spines and links_per_spine; leave one of the three out");
    }
    if (topology_.uplink.rate.is_unlimited()) return;  // reported
    const std::optional<uint64_t> capacity = leaf_capacity();
    if (!capacity) return wrong("needs nodes with equal links; give spines instead");
    using Wide = unsigned __int128;
    const Wide need = Wide{*capacity} * up;
    const Wide each = Wide{topology_.uplink.rate.bps()} * down;
    if (need % each != 0 || need / each == 0 || need / each > kMostSwitches) {
      return wrong("a leaf has " + std::to_string(*capacity / 1'000'000) +
                   " Mbit/s down and uplinks of " +
                   std::to_string(topology_.uplink.rate.bps() / 1'000'000) +
                   " Mbit/s: their number does not come out even");
    }
    const auto uplinks = static_cast<uint32_t>(need / each);
    const uint32_t by = spines ? spines->value : topology_.links_per_spine;
    if (uplinks % by != 0) {
      return wrong(std::to_string(uplinks) + " uplinks of a leaf do not spread evenly over " +
                   (spines ? "spines = " : "links_per_spine = ") + std::to_string(by));
    }
    (spines ? topology_.links_per_spine : topology_.spines) = uplinks / by;
  }

  static bool parse_ratio(std::string_view text, uint64_t& down, uint64_t& up) {
    const char* end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, down);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return false;
    const auto second = std::from_chars(first.ptr + 1, end, up);
    constexpr uint64_t kMost = 1'000'000;
    return second.ec == std::errc() && second.ptr == end && down - 1 < kMost && up - 1 < kMost;
  }

  /// What the hosts of a full leaf can send, if that is the same for all leaves.
  std::optional<uint64_t> leaf_capacity() const {
    const bool rail = topology_.kind == TopologyKind::kRail;
    std::optional<uint64_t> each;
    for (const NodeConfig& node : context_.config.nodes) {
      const uint64_t rate = node.nics[0].link_rate.bps() * (rail ? 1 : node.nics.size());
      if (each && *each != rate) return std::nullopt;
      each = rate;
    }
    return *each * topology_.hosts_per_leaf;
  }

  void check_cables() {
    size_t rails = 1;
    if (topology_.kind == TopologyKind::kRail) {
      for (const NodeConfig& node : context_.config.nodes)
        rails = std::max(rails, node.nics.size());
    }
    require_few(uint64_t{topology_.leaves} * rails * topology_.spines * topology_.links_per_spine);
  }

  void require_few(uint64_t cables) {
    if (cables <= kMostCables) return;
    table_.error(table_.line(), "kind", std::to_string(cables) + " cables between switches",
                 "the most is " + std::to_string(kMostCables));
  }

  // The other kinds -------------------------------------------------------------------------------

  void read_fat_tree() {
    table_.require("k", "the number of ports of a switch, even");
    const auto k = count("k", 2, 64);
    topology_.uplink = need_link("uplink", "the link from an edge to an aggregation switch");
    topology_.core_uplink =
        read_link(table_, "core_uplink", context_.errors).value_or(topology_.uplink);
    if (!k) return;
    topology_.k = k->value;
    const uint64_t most = uint64_t{k->value} * k->value * k->value / 4;
    if (k->value % 2 != 0) {
      table_.error(k->line, "k", std::to_string(k->value), "half of the ports lead up: k is even");
    } else if (context_.nodes_complete && nics_ > most) {
      table_.error(k->line, "k", std::to_string(k->value),
                   "has room for k^3/4 = " + std::to_string(most) + " NICs, and the nodes have " +
                       std::to_string(nics_));
    }
  }

  void read_torus() {
    const std::string allowed = "a size per dimension, as in [4, 4, 4]";
    table_.require("dims", allowed);
    topology_.link = need_link("link", "the link between two routers");
    const TomlNode* dims = table_.any("dims");
    if (dims == nullptr) return;
    uint64_t product = 1;
    bool good = dims->kind == TomlNode::Kind::kArray && dims->children.size() - 1 < 6;
    for (const TomlNode& size : dims->children) {
      good = good && size.kind == TomlNode::Kind::kInteger && size.integer >= 1 &&
             size.integer <= static_cast<int64_t>(kMostNodes);
      if (!good) break;
      topology_.dims.push_back(static_cast<uint32_t>(size.integer));
      product = std::min<uint64_t>(product * topology_.dims.back(), uint64_t{1} << 32);
    }
    if (!good) {
      table_.error(dims->line, "dims", dims->describe(), "expected " + allowed);
    } else {
      check_product(dims->line, "dims", product);
    }
  }

  void read_dimensions() {
    table_.require("dimensions",
                   "[{ kind = \"ring\", size = 4, link = { ... } }, ...], the innermost first");
    uint64_t product = 1, cables = 0;
    bool complete = true;
    for (const TomlNode* toml : table_.tables("dimensions")) {
      const size_t errors_before = context_.errors.size();
      TableReader table(*toml, "topology.dimensions", context_.errors);
      DimensionConfig dimension;
      table.require("kind", "\"ring\", \"fully_connected\" or \"switch\"");
      table.choice("kind",
                   {{"ring", DimensionConfig::Kind::kRing},
                    {"fully_connected", DimensionConfig::Kind::kFullyConnected},
                    {"switch", DimensionConfig::Kind::kSwitch}},
                   dimension.kind);
      table.require("size", "how many nodes, or groups of nodes, it joins");
      if (const auto size = table.integer("size", 1, kMostNodes)) {
        dimension.size = static_cast<uint32_t>(size->value);
      }
      table.require("link", "{ rate = \"100Gbit/s\", latency = \"1us\" }");
      if (const auto link = read_link(table, "link", context_.errors)) dimension.link = *link;
      table.finish();
      complete = complete && context_.errors.size() == errors_before;
      product = std::min<uint64_t>(product * dimension.size, uint64_t{1} << 32);
      const bool full = dimension.kind == DimensionConfig::Kind::kFullyConnected;
      cables += nodes() * (full ? (dimension.size - 1) / 2 + 1 : 1);
      topology_.dimensions.push_back(dimension);
    }
    const TomlNode* dimensions = table_.any("dimensions");
    if (!complete || dimensions == nullptr || !topology_.dimensions.size()) return;
    check_product(dimensions->line, "dimensions", product);
    require_few(cables);
  }

  void check_product(unsigned line, std::string_view key, uint64_t product) {
    if (!context_.nodes_complete || product == nodes()) return;
    table_.error(line, key, "room for " + std::to_string(product) + " nodes",
                 "there are " + std::to_string(nodes()) + " nodes, and each place takes one");
  }

  /// A link that takes no time has no place in a network with queues.
  void check_rates() {
    if (!context_.nodes_complete || !context_.links_complete) return;
    unsigned reported = 0;
    for (const NodeConfig& node : context_.config.nodes) {
      if (!node.nics[0].link_rate.is_unlimited() || node.line == reported) continue;
      reported = node.line;
      context_.errors.add(node.line, "node.link.rate", "\"unlimited\" of node " + node.name,
                          "with a [topology] every link has a rate");
    }
  }

  TableReader table_;
  ReadContext& context_;
  TopologyConfig topology_;
  size_t nics_ = 0;
};

constexpr std::string_view kGpuRate = "[intra_node] gpu_link.rate";

bool states_rate(const TomlNode* link) {
  return link != nullptr && std::ranges::any_of(link->children, [](const TomlNode& child) {
           return child.key == "rate";
         });
}

/// Of all nodes' machines, if their GPUs use it.
std::optional<Rate> nvlink_rate(ReadContext& context) {
  const std::optional<NcclConfig>& nccl = context.config.nccl;
  if (nccl && nccl->system.intra != IntraLink::kNvlink) return std::nullopt;
  return agreed(context, &Machine::nvlink, kGpuRate);
}

void read_intra_node(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "intra_node", context.errors);
  IntraNodeConfig intra;
  const TomlNode* gpu_link = table.any("gpu_link");
  std::optional<Rate> known;
  if (gpu_link != nullptr && !states_rate(gpu_link)) {
    known = nvlink_rate(context);
    // What was wrong of the machines is reported: any rate does.
    if (!known && !context.machines_complete) known = Rate::bits_per_second(1);
  }
  intra.gpu_link = read_link(table, "gpu_link", context.errors, known);
  if (intra.gpu_link) note_stated(context, &Machine::nvlink, intra.gpu_link->rate, kGpuRate);
  intra.pcie = read_link(table, "pcie", context.errors);
  if (table.any("gpu_link") == nullptr && table.any("pcie") == nullptr) {
    table.error(table.line(), "gpu_link", "nothing", "[intra_node] needs gpu_link, pcie or both");
  }
  table.finish();
  if (!context.config.topology && context.topology_complete) {
    table.error(table.line(), "gpu_link", "no [topology]",
                "the links inside nodes are part of a [topology]; \"single_switch\" is the least");
  }
  context.config.intra_node = intra;
}

}  // namespace

std::optional<LinkConfig> read_link(TableReader& parent, std::string_view key, ErrorList& errors,
                                    std::optional<Rate> known) {
  const TomlNode* toml = parent.table(key);
  if (toml == nullptr) return std::nullopt;
  const size_t errors_before = errors.size();
  TableReader table(*toml, parent.path(key), errors);
  LinkConfig link;
  if (known) {
    link.rate = *known;
  } else {
    table.require("rate", "as in \"100Gbit/s\"");
  }
  table.require("latency", "one way, as in \"1us\"");
  if (const auto rate = table.rate("rate")) {
    link.rate = rate->value;
    require_limited(table, "rate", *rate);
  }
  if (const auto latency = table.duration("latency")) link.latency = latency->value;
  table.finish();
  if (errors.size() != errors_before) return std::nullopt;
  return link;
}

void require_limited(TableReader& table, std::string_view key, const Located<Rate>& rate) {
  if (!rate.value.is_unlimited()) return;
  table.error(rate.line, key, "\"unlimited\"", "every link of a topology has a rate");
}

void read_topology(TableReader& root, ReadContext& context) {
  if (const TomlNode* toml = root.table("topology")) {
    TopologyReader(*toml, context).run();
    context.topology_complete = context.config.topology.has_value();
  }
  if (const TomlNode* toml = root.table("intra_node")) {
    read_intra_node(*toml, context);
  } else if (context.config.topology) {
    // Nothing is published of latencies: there is none.
    const auto rate = nvlink_rate(context);
    if (rate)
      context.config.intra_node = IntraNodeConfig{.gpu_link = LinkConfig{*rate, {}}, .pcie = {}};
  }
}

}  // namespace understudy
