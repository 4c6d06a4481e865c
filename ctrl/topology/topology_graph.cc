// A topology given switch by switch and cable by cable; and what is inside the nodes.
#include <algorithm>

#include "ctrl/config/suggest.h"
#include "ctrl/topology/topology_builder.h"

namespace understudy {
namespace {

class CableBuilder {
 public:
  CableBuilder(TopologyBuilder& builder, const CableConfig& cable)
      : builder_(builder), cable_(cable) {}

  void run() {
    const std::vector<VertexId> a = ends("a", cable_.a);
    const std::vector<VertexId> b = ends("b", cable_.b);
    if (a.empty() || b.empty()) return;
    for (VertexId from : a) {
      for (VertexId to : b) {
        if (!join(from, to)) return;
      }
    }
  }

 private:
  bool is_nic(VertexId v) const { return builder_.graph().vertices()[v].kind == VertexKind::kNic; }

  std::vector<VertexId> ends(std::string_view key, const std::string& name) {
    std::vector<VertexId> found = builder_.matching(name);
    if (!found.empty()) return found;
    std::vector<std::string_view> known;
    for (const Vertex& vertex : builder_.graph().vertices()) known.push_back(vertex.name);
    builder_.error(cable_.line, "link." + std::string(key),
                   "\"" + name + "\"" + suggest(name, known),
                   "there is no switch and no NIC of this name");
    return found;
  }

  bool join(VertexId a, VertexId b) {
    if (a == b) {
      builder_.error(cable_.line, "link.b", "\"" + cable_.b + "\"", "a cable from here to itself");
      return false;
    }
    std::optional<Rate> rate = cable_.rate;
    std::optional<Duration> latency = cable_.latency;
    if (is_nic(a) || is_nic(b)) {
      const Vertex& nic = builder_.graph().vertices()[is_nic(a) ? a : b];
      const NicConfig& own = builder_.config().nodes[nic.node].nics[nic.unit];
      rate = rate.value_or(own.link_rate);
      latency = latency.value_or(own.link_latency);
    }
    if (!rate || !latency) {
      builder_.error(cable_.line, rate ? "link.latency" : "link.rate", "nothing",
                     "a cable between switches needs rate and latency");
      return false;
    }
    builder_.connect(a, b, {*rate, *latency}, cable_.count);
    if (builder_.graph().links().size() <= size_t{1} << 22) return true;
    builder_.error(cable_.line, "link.count", "more than 2 million cables", "this is the most");
    return false;
  }

  TopologyBuilder& builder_;
  const CableConfig& cable_;
};

}  // namespace

void build_explicit_graph(TopologyBuilder& builder, const TopologyConfig& topology) {
  for (const SwitchConfig& one : topology.switches) {
    builder.add_switch(one.name, one.tier, one.line, "switch.name");
  }
  for (const CableConfig& cable : topology.cables) CableBuilder(builder, cable).run();
}

void build_intra_node(TopologyBuilder& builder, const IntraNodeConfig& intra) {
  for (const NodeConfig& node : builder.config().nodes) {
    const std::vector<VertexId>& nics = builder.topology().nics[node.index];
    const std::vector<VertexId> gpus = builder.add_gpus(node);
    if (intra.gpu_link) {
      const VertexId nvswitch = builder.add_switch(node.name + "/nvswitch", 0, node.line);
      for (VertexId gpu : gpus) builder.connect(gpu, nvswitch, *intra.gpu_link);
      if (!intra.pcie) continue;
      for (VertexId nic : nics) builder.connect(nvswitch, nic, *intra.pcie);
    } else {
      // GPUs share the NICs evenly, in order.
      for (size_t g = 0; g < gpus.size(); ++g) {
        builder.connect(gpus[g], nics[g * nics.size() / gpus.size()], *intra.pcie);
      }
    }
  }
}

}  // namespace understudy
