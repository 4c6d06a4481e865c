// Topologies in which nodes forward: torus, mesh, stacks of dimensions. A node's number in mixed
// radix is its place; the first dimension is the last digit.
#include "ctrl/topology/topology_builder.h"

namespace understudy {
namespace {

/// A router for every node, its NICs on it; gives node 0's.
VertexId add_routers(TopologyBuilder& builder, unsigned line) {
  const auto first = static_cast<VertexId>(builder.graph().vertices().size());
  for (const NodeConfig& node : builder.config().nodes) {
    const VertexId router = builder.add_switch(node.name + "/router", 1, line);
    for (unsigned k = 0; k < node.nics.size(); ++k) builder.attach(node.index, k, router);
  }
  return first;
}

/// Calls join(first, stride) for each line of nodes along a dimension: first, first + stride, ...
template <typename Join>
void for_each_line(uint32_t nodes, uint32_t stride, uint32_t size, Join&& join) {
  for (uint32_t node = 0; node < nodes; ++node) {
    if (node / stride % size == 0) join(node);
  }
}

/// Neighbours along each line; with `closed` the last and the first too, unless they are
/// neighbours already.
void join_lines(TopologyBuilder& builder, VertexId routers, uint32_t stride, uint32_t size,
                bool closed, const LinkConfig& link) {
  const auto nodes = static_cast<uint32_t>(builder.config().nodes.size());
  for_each_line(nodes, stride, size, [&](uint32_t first) {
    const auto at = [&](uint32_t i) { return routers + first + i * stride; };
    for (uint32_t i = 0; i + 1 < size; ++i) builder.connect(at(i), at(i + 1), link);
    if (closed && size > 2) builder.connect(at(size - 1), at(0), link);
  });
}

}  // namespace

void build_torus(TopologyBuilder& builder, const TopologyConfig& topology) {
  const VertexId routers = add_routers(builder, topology.line);
  uint32_t stride = 1;
  // Dimension by dimension: the routers' lists of links are then in this order (dimension_order).
  for (uint32_t size : topology.dims) {
    join_lines(builder, routers, stride, size, topology.kind == TopologyKind::kTorus,
               topology.link);
    stride *= size;
  }
}

void build_dimensions(TopologyBuilder& builder, const TopologyConfig& topology) {
  const VertexId routers = add_routers(builder, topology.line);
  const auto nodes = static_cast<uint32_t>(builder.config().nodes.size());
  uint32_t stride = 1;
  for (size_t d = 0; d < topology.dimensions.size(); ++d) {
    const auto& [kind, size, link] = topology.dimensions[d];
    const uint32_t n = size;
    const LinkConfig& cable = link;
    switch (kind) {
      case DimensionConfig::Kind::kRing:
        join_lines(builder, routers, stride, n, true, cable);
        break;
      case DimensionConfig::Kind::kFullyConnected:
        for_each_line(nodes, stride, n, [&](uint32_t first) {
          for (uint32_t i = 0; i < n; ++i) {
            for (uint32_t j = i + 1; j < n; ++j) {
              builder.connect(routers + first + i * stride, routers + first + j * stride, cable);
            }
          }
        });
        break;
      case DimensionConfig::Kind::kSwitch: {
        VertexId next =
            builder.add_switches(std::string("dim").append(std::to_string(d)) + ".", nodes / n, 2);
        for_each_line(nodes, stride, n, [&](uint32_t first) {
          for (uint32_t i = 0; i < n; ++i) {
            builder.connect(routers + first + i * stride, next, cable);
          }
          ++next;
        });
        break;
      }
    }
    stride *= n;
  }
}

}  // namespace understudy
