// [[client]]: clients of perftest and rping on emulated nodes.
#include <algorithm>
#include <limits>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr int64_t kMostQueuePairs = 1024;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
/// What rping takes as -S, and what it is by default.
constexpr uint64_t kLeastText = 26, kMostText = 65535;
constexpr uint32_t kText = 64;
constexpr uint16_t kRpingPort = 7174;

bool share_a_family(const NicConfig& a, const NicConfig& b) {
  return (a.v4 && b.v4) || (a.v6 && b.v6);
}

/// Whether some port's rail gives both nodes an address of one family.
bool can_reach(const NodeConfig& node, const NodeConfig& server, const Config& config) {
  return std::any_of(config.ports.begin(), config.ports.end(), [&](const PortConfig& port) {
    return port.node == server.index && port.nic < node.nics.size() &&
           share_a_family(node.nics[port.nic], server.nics[port.nic]);
  });
}

void check_nodes(TableReader& table, const Located<std::string>& name, const NodeConfig& node,
                 const Located<std::string>& server_name, const NodeConfig& server,
                 const ReadContext& context) {
  if (node.real) {
    table.error(name.line, "node", "\"" + name.value + "\"",
                "a real node runs its own clients; a client belongs to an emulated node");
  } else if (!server.real) {
    table.error(server_name.line, "server", "\"" + server_name.value + "\"",
                "the server is a program on a real node");
  } else if (context.addresses_complete && context.ports_complete &&
             !can_reach(node, server, context.config)) {
    table.error(server_name.line, "server", "\"" + server_name.value + "\"",
                "no [[port]] of this node is on a rail where node " + node.name +
                    " has an address of the same family");
  }
}

void read_client(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "client", context.errors);
  ClientConfig client;
  client.line = table.line();
  table.require("node", "the name of an emulated node");
  table.require("server", "the name of the real node where the server runs");
  const auto name = table.text("node");
  const NodeConfig* node = name ? context.resolve(table, "node", *name) : nullptr;
  const auto server_name = table.text("server");
  const NodeConfig* server = server_name ? context.resolve(table, "server", *server_name) : nullptr;
  table.choice("kind",
               {{"write_bw", ServiceKind::kWriteBw},
                {"send_bw", ServiceKind::kSendBw},
                {"read_bw", ServiceKind::kReadBw},
                {"rping", ServiceKind::kRping}},
               client.kind);
  const bool rping = client.kind == ServiceKind::kRping;
  if (rping) {
    client.rdma_cm = true;
    client.port = kRpingPort;
    client.bytes = kText;
  }
  if (const auto by_cm = table.boolean("rdma_cm")) {
    client.rdma_cm = by_cm->value;
    if (rping && !by_cm->value) {
      table.error(by_cm->line, "rdma_cm", "false", "rping connects by RDMA-CM only");
    }
  }
  if (const auto port = table.integer("port", 1, 65535)) {
    client.port = static_cast<uint16_t>(port->value);
  }
  if (const auto size = table.size("size")) {
    const uint64_t least = rping ? kLeastText : 1, most = rping ? kMostText : kMostBytes;
    if (size->value >= least && size->value <= most) {
      client.bytes = static_cast<uint32_t>(size->value);
    } else {
      table.error(size->line, "size", table.any("size")->describe(),
                  rping ? "expected 26 B to 65535 B, as rping's -S" : "expected 1 B to 1 GiB");
    }
  }
  if (const auto count = table.integer("iterations", 1, std::numeric_limits<int32_t>::max())) {
    client.iterations = static_cast<uint32_t>(count->value);
  }
  if (const auto count = table.integer("queue_pairs", 1, kMostQueuePairs)) {
    client.queue_pairs = static_cast<uint32_t>(count->value);
    if (rping && count->value != 1) {
      table.error(count->line, "queue_pairs", std::to_string(count->value),
                  "rping has one queue pair");
    }
  }
  if (const auto at = table.duration("at")) client.at = at->value;
  read_sender(table, context, client.sender);
  table.finish();
  if (node == nullptr || server == nullptr) return;
  check_nodes(table, *name, *node, *server_name, *server, context);
  client.node = node->index;
  client.server = server->index;
  const NodeId nodes[] = {client.node};
  name_sender(table, context, client.sender,
              "client on " + node->name + " of " + server->name + ":" + std::to_string(client.port),
              nodes);
  context.config.clients.push_back(client);
}

}  // namespace

void read_clients(TableReader& root, ReadContext& context) {
  for (const TomlNode* client : root.tables("client")) read_client(*client, context);
}

}  // namespace understudy
