// What the readers of [topology] share.
#pragma once

#include <optional>
#include <string_view>

#include "ctrl/config/read/table_reader.h"
#include "ctrl/config/topology_config.h"

namespace understudy {

struct ReadContext;

/// Cables between switches; bounds the memory a short text can ask for.
inline constexpr uint64_t kMostCables = uint64_t{1} << 20;

/// `key = { rate = ..., latency = ... }` with a limited rate. Nothing if it is absent or wrong. With
/// `known` the rate may be left out.
std::optional<LinkConfig> read_link(TableReader& parent, std::string_view key, ErrorList& errors,
                                    std::optional<Rate> known = {});
/// Reports a rate that is "unlimited".
void require_limited(TableReader& table, std::string_view key, const Located<Rate>& rate);

/// [[topology.switch]] and [[topology.link]].
void read_topology_graph(TableReader& table, TopologyConfig& topology, ReadContext& context);
/// [[topology.override]].
void read_link_overrides(TableReader& table, TopologyConfig& topology, ReadContext& context);
/// [[topology.route]].
void read_static_routes(TableReader& table, TopologyConfig& topology, ReadContext& context);

}  // namespace understudy
