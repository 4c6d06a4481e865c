// [[traffic]]: patterns of flows and files of flows.
#include <algorithm>
#include <cmath>
#include <set>

#include "ctrl/config/read/csv_file.h"
#include "ctrl/config/read/sections.h"
#include "ctrl/config/suggest.h"

namespace understudy {
namespace {

constexpr int64_t kMostRounds = 1'000'000;
/// Flows of all tables together; a short text can ask for many.
constexpr uint64_t kMostFlows = uint64_t{1} << 24;

class TrafficReader {
 public:
  TrafficReader(const TomlNode& toml, ReadContext& context)
      : table_(toml, "traffic", context.errors), context_(context) {
    traffic_.line = table_.line();
  }

  /// The flows of all tables so far, and this one's.
  uint64_t run(uint64_t flows_before) {
    const size_t errors = context_.errors.size();
    traffic_.name = "traffic " + std::to_string(context_.config.traffic.size() + 1);
    if (const auto name = table_.text("name")) {
      traffic_.name = name->value;
      if (name->value.empty()) table_.error(name->line, "name", "an empty text", "expected a name");
    }
    if (!read_pattern()) return flows_before;
    read_common();
    if (is(TrafficPattern::kFile)) {
      read_file();
    } else {
      belongs("file", false, "file");
      read_ends();
      if (is(TrafficPattern::kPoisson)) {
        for (const std::string_view key : {"size", "on", "stagger"}) {
          belongs(key, false, "all but file and poisson");
        }
      } else {
        read_size();
      }
    }
    read_rounds();
    read_arrivals();
    table_.finish();
    uint64_t flows = flows_before;
    if (context_.errors.size() == errors) {
      flows += flow_count();
      if (flows > kMostFlows) {
        table_.error(table_.line(), "pattern", std::to_string(flows) + " flows",
                     "all [[traffic]] together may have at most " + std::to_string(kMostFlows));
      }
      check_last_start(flows - flows_before);
    }
    context_.config.traffic.push_back(std::move(traffic_));
    return flows;
  }

 private:
  bool is(TrafficPattern pattern) const { return traffic_.pattern == pattern; }
  /// Whether one set of nodes is senders and receivers at once.
  bool is_set() const {
    return is(TrafficPattern::kPermutation) || is(TrafficPattern::kAllToAll) ||
           is(TrafficPattern::kRing) || is(TrafficPattern::kTree);
  }

  bool read_pattern() {
    const size_t errors = context_.errors.size();
    table_.require("pattern",
                   "flow, incast, permutation, all_to_all, ring, tree, on_off, file or poisson");
    table_.choice("pattern",
                  {{"flow", TrafficPattern::kFlow},
                   {"incast", TrafficPattern::kIncast},
                   {"permutation", TrafficPattern::kPermutation},
                   {"all_to_all", TrafficPattern::kAllToAll},
                   {"ring", TrafficPattern::kRing},
                   {"tree", TrafficPattern::kTree},
                   {"on_off", TrafficPattern::kOnOff},
                   {"file", TrafficPattern::kFile},
                   {"poisson", TrafficPattern::kPoisson}},
                  traffic_.pattern);
    return context_.errors.size() == errors;
  }

  /// A key that other patterns have no use for is not silently ignored.
  bool belongs(std::string_view key, bool fits, std::string_view patterns) {
    const TomlNode* value = table_.any(key);
    if (value == nullptr || fits) return value != nullptr;
    table_.error(value->line, key, value->describe(),
                 "belongs to these patterns only: " + std::string(patterns));
    return false;
  }

  void read_common() {
    if (const auto priority = table_.integer("priority", 0, 7)) {
      traffic_.priority = static_cast<uint8_t>(priority->value);
    }
    if (const auto at = table_.duration("at")) traffic_.at = at->value;
    traffic_.slowdown = is(TrafficPattern::kPoisson);
    if (const auto slowdown = table_.boolean("slowdown")) traffic_.slowdown = slowdown->value;
    table_.choice("start", {{"time", false}, {"command", true}}, traffic_.held);
    if (const ControlConfig* found = find_control(table_, context_)) {
      traffic_.control = static_cast<uint32_t>(found - context_.config.controls.data());
    }
  }

  std::vector<NodeId> read_nodes_of(std::string_view key) {
    std::vector<NodeId> nodes;
    for (const Located<std::string>& name : table_.one_or_more(key)) {
      const std::vector<NodeId> found = context_.resolve_all(table_, key, name);
      nodes.insert(nodes.end(), found.begin(), found.end());
      if (found.empty()) complete_ = false;
    }
    const TomlNode* value = table_.any(key);
    if (value != nullptr && value->kind == TomlNode::Kind::kArray && value->children.empty()) {
      table_.error(value->line, key, "an empty array", "expected the name of a node");
    }
    if (nodes.empty()) complete_ = false;
    return nodes;
  }

  void read_ends() {
    table_.require("from", "names of nodes; \"w*\" is all of a counted node");
    traffic_.from = read_nodes_of("from");
    if (is_set()) {
      belongs("to", false, "flow, incast, on_off, poisson; here each of from receives too");
      if (complete_) check_set();
    } else if (is(TrafficPattern::kPoisson)) {
      traffic_.to = table_.any("to") == nullptr ? traffic_.from : read_nodes_of("to");
      if (complete_) check_choices();
    } else {
      table_.require("to", "names of nodes");
      traffic_.to = read_nodes_of("to");
      if (complete_) check_pairs();
    }
    if (const auto nic = table_.integer("nic", 0, kMostNics - 1)) {
      traffic_.nic = static_cast<unsigned>(nic->value);
    }
    for (const std::vector<NodeId>* nodes : {&traffic_.from, &traffic_.to}) {
      for (const NodeId node : *nodes) {
        const NodeConfig& config = context_.config.nodes[node];
        if (traffic_.nic < config.nics.size()) continue;
        const TomlNode* nic = table_.any("nic");
        table_.error(
            nic != nullptr ? nic->line : table_.line(), "nic", std::to_string(traffic_.nic),
            "node " + config.name + " has " + std::to_string(config.nics.size()) + " NIC(s)");
        return;
      }
    }
  }

  void refuse_twice(std::string_view key, const std::vector<NodeId>& nodes) {
    std::set<NodeId> seen;
    for (const NodeId node : nodes) {
      if (seen.insert(node).second) continue;
      table_.error(table_.any(key)->line, key, "node " + name_of(node) + " twice",
                   "each node takes part once");
      return;
    }
  }

  void check_set() {
    const size_t errors = context_.errors.size();
    refuse_twice("from", traffic_.from);
    if (context_.errors.size() != errors) return;
    if (traffic_.from.size() < 2) {
      table_.error(table_.any("from")->line, "from", "node " + name_of(traffic_.from[0]),
                   "a flow to itself: expected at least two nodes");
    }
  }

  /// Every sender has somebody else to send to.
  void check_choices() {
    const bool other = table_.any("to") != nullptr;
    refuse_twice("from", traffic_.from);
    if (other) refuse_twice("to", traffic_.to);
    const NodeId first = traffic_.to[0];
    if (traffic_.to.size() > 1 || std::ranges::find(traffic_.from, first) == traffic_.from.end()) {
      return;
    }
    const std::string_view key = other ? "to" : "from";
    table_.error(table_.any(key)->line, key, "node " + name_of(first),
                 "a flow to itself: it has nobody else to send to");
  }

  void check_pairs() {
    const size_t senders = traffic_.from.size(), receivers = traffic_.to.size();
    const TomlNode* to = table_.any("to");
    if (receivers != 1 && (is(TrafficPattern::kIncast) || receivers != senders)) {
      table_.error(to->line, "to", std::to_string(receivers) + " nodes",
                   is(TrafficPattern::kIncast)
                       ? "an incast has one receiver"
                       : "expected one node, or as many as from: " + std::to_string(senders));
      return;
    }
    for (size_t i = 0; i < senders; ++i) {
      if (traffic_.from[i] != traffic_.to[receivers == 1 ? 0 : i]) continue;
      table_.error(to->line, "to", "\"" + name_of(traffic_.from[i]) + "\"",
                   "a flow to itself: this node is the sender too");
      return;
    }
  }

  void read_size() {
    if (belongs("on", is(TrafficPattern::kOnOff), "on_off")) {
      if (const auto on = table_.duration("on")) traffic_.on = on->value;
      const TomlNode* both = table_.any("size");
      if (both != nullptr) {
        table_.error(both->line, "size", both->describe(), "a burst has either on or a size");
      } else if (traffic_.on == Duration() && table_.any("on")->kind == TomlNode::Kind::kString) {
        table_.error(table_.any("on")->line, "on", table_.any("on")->describe(),
                     "a burst takes some time");
      }
    } else {
      table_.require("size", is(TrafficPattern::kOnOff) ? "of a burst; or on, how long it takes"
                                                        : "bytes of each flow, as in \"2MB\"");
    }
    if (const auto size = table_.size("size")) {
      traffic_.bytes = size->value;
      if (size->value == 0) {
        table_.error(size->line, "size", table_.any("size")->describe(),
                     "a flow has at least one byte");
      }
    }
    if (const auto stagger = table_.duration("stagger")) traffic_.stagger = stagger->value;
  }

  void count(std::string_view key, bool fits, std::string_view patterns, int64_t most,
             uint32_t& out) {
    if (!belongs(key, fits, patterns)) return;
    if (const auto n = table_.integer(key, 1, most)) out = static_cast<uint32_t>(n->value);
  }

  void read_rounds() {
    count("steps", is(TrafficPattern::kRing), "ring", kMostRounds, traffic_.steps);
    const bool tree = is(TrafficPattern::kTree);
    count("channels", is(TrafficPattern::kRing) || tree, "ring, tree", kMostChannels,
          traffic_.channels);
    count("chunks", tree, "tree", kMostRounds, traffic_.chunks);
    count("concurrent", is(TrafficPattern::kAllToAll), "all_to_all", kMostRounds,
          traffic_.concurrent);
    const bool rounds = !is(TrafficPattern::kFile) && !is(TrafficPattern::kPoisson);
    count("repeat", rounds, "all but file and poisson", kMostRounds, traffic_.repeat);
    if (belongs("off", rounds, "all but file and poisson")) {
      if (const auto off = table_.duration("off")) traffic_.off = off->value;
    }
    const bool timed = is(TrafficPattern::kOnOff) || is(TrafficPattern::kPoisson);
    if (belongs("until", timed, "on_off, poisson")) read_until();
    if (!timed) return;
    for (const NodeId node : traffic_.from) {
      if (traffic_.nic >= context_.config.nodes[node].nics.size() ||
          !link_of(node).is_unlimited()) {
        continue;
      }
      table_.error(table_.any("from")->line, "from", "\"" + name_of(node) + "\"",
                   is(TrafficPattern::kOnOff)
                       ? "this node's link is unlimited: how long a burst takes is not known"
                       : "this node's link is unlimited: there is no share of it");
      return;
    }
  }

  void read_until() {
    const auto until = table_.duration("until");
    if (!until) return;
    traffic_.until = until->value;
    const char* count = is(TrafficPattern::kPoisson) ? "flows" : "repeat";
    if (table_.any(count) != nullptr) {
      table_.error(until->line, "until", table_.any("until")->describe(),
                   std::string("the end is given by ") + count + " or by until");
    } else if (until->value <= traffic_.at) {
      table_.error(until->line, "until", table_.any("until")->describe(),
                   "expected a time after at");
    }
  }

  void read_arrivals() {
    const bool poisson = is(TrafficPattern::kPoisson);
    if (!poisson) {
      for (const std::string_view key : {"load", "sizes", "flows"}) belongs(key, false, "poisson");
      return;
    }
    if (table_.require("load", "a share of the senders' links, as in 0.5")) {
      const auto load = table_.number("load");
      if (load && (!(load->value > 0) || load->value > 1)) {
        table_.error(load->line, "load", table_.any("load")->describe(),
                     "expected a share above 0 and at most 1");
      } else if (load) {
        traffic_.load = load->value;
      }
    }
    read_sizes(table_, context_, traffic_.sizes);
    if (const auto flows = table_.integer("flows", 1, static_cast<int64_t>(kMostFlows))) {
      traffic_.count = static_cast<uint64_t>(flows->value);
    } else if (table_.any("flows") == nullptr && table_.any("until") == nullptr) {
      table_.error(table_.line(), "until", "nothing",
                   "expected the time from which on no flow starts; or flows, how many there are");
    }
  }

  /// Of a Poisson table: flows per second of all senders.
  double arrival_rate() const {
    double rate = 0;
    for (const NodeId node : traffic_.from) {
      rate += poisson_rate(traffic_, link_of(node));
    }
    return rate;
  }

  Rate link_of(NodeId node) const {
    return context_.config.nodes[node].nics[traffic_.nic].link_rate;
  }

  void read_file() {
    for (const std::string_view key : {"from", "to", "nic", "size", "on", "stagger"}) {
      belongs(key, false, "all but file");
    }
    if (!table_.require("file", "the path of a CSV file")) return;
    const auto file = table_.text("file");
    if (!file) return;
    const auto read = read_csv_file(table_, context_, *file);
    if (!read) return;
    traffic_.file = read->path;
    traffic_.flows = read_flow_list(read->text, read->path, context_);
  }

  uint64_t flow_count() const {
    const uint64_t n = traffic_.from.size();
    switch (traffic_.pattern) {
      case TrafficPattern::kFile:
        return traffic_.flows.size();
      case TrafficPattern::kAllToAll:
        return n * (n - 1) * traffic_.repeat;
      case TrafficPattern::kRing:
        // No product of two is near 2^64: 65,536 nodes, a million of each of the others.
        return std::min(kMostFlows + 1, n * traffic_.steps) *
               std::min(kMostFlows + 1, uint64_t{traffic_.channels} * traffic_.repeat);
      case TrafficPattern::kTree:
        return std::min(kMostFlows + 1, 4 * (n - 1) * traffic_.chunks) *
               std::min(kMostFlows + 1, uint64_t{traffic_.channels} * traffic_.repeat);
      case TrafficPattern::kOnOff: {
        uint64_t bursts = 0;
        for (const NodeId node : traffic_.from) bursts += bursts_of(traffic_, link_of(node)).count;
        return bursts;
      }
      case TrafficPattern::kPoisson: {
        if (!traffic_.until) return traffic_.count;
        const double flows = arrival_rate() * (*traffic_.until - traffic_.at).seconds();
        return static_cast<uint64_t>(std::min(std::ceil(flows), 2.0 * kMostFlows));
      }
      default:
        return n * traffic_.repeat;
    }
  }

  /// What is longer than any single duration of a configuration is a mistake.
  void check_last_start(uint64_t flows) {
    const double rounds = static_cast<double>(traffic_.repeat - 1);
    double last = traffic_.at.seconds() + traffic_.stagger.seconds() * static_cast<double>(flows);
    if (is(TrafficPattern::kOnOff)) {
      for (const NodeId node : traffic_.from) {
        last = std::max(last,
                        traffic_.at.seconds() +
                            traffic_.stagger.seconds() * static_cast<double>(traffic_.from.size()) +
                            rounds * bursts_of(traffic_, link_of(node)).period.seconds());
      }
    } else if (is(TrafficPattern::kPoisson)) {
      last = traffic_.at.seconds() + static_cast<double>(flows) / arrival_rate();
    } else {
      last += rounds * traffic_.off.seconds();
    }
    constexpr double kLatest = 86'400;
    if (last <= kLatest) return;
    table_.error(table_.line(), "pattern", "a flow that starts after more than 86400s",
                 is(TrafficPattern::kPoisson) ? "at, flows, load and the sizes together lead there"
                                              : "at, stagger, repeat and off together lead there");
  }

  const std::string& name_of(NodeId node) const { return context_.config.nodes[node].name; }

  TableReader table_;
  ReadContext& context_;
  TrafficConfig traffic_;
  bool complete_ = true;  ///< all ends are known nodes
};

}  // namespace

void read_traffic(TableReader& root, ReadContext& context) {
  uint64_t flows = 0;
  for (const TomlNode* traffic : root.tables("traffic")) {
    flows = TrafficReader(*traffic, context).run(flows);
  }
}

}  // namespace understudy
