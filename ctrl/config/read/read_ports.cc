// [[port]] and [[service]]: what hangs on a node.
#include <algorithm>
#include <bit>

#include "ctrl/config/read/sections.h"

namespace understudy {
namespace {

constexpr Duration kLongestAcceptDelay = Duration::s(1000);
constexpr unsigned kMostPortCores = 3;

bool has_address(const NicConfig& nic) { return nic.v4 || nic.v6; }

void read_port(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "port", context.errors);
  PortConfig port;
  port.line = table.line();
  table.require("real", "the name of a real node");
  const auto name = table.text("real");
  const NodeConfig* node = name ? context.resolve(table, "real", *name) : nullptr;
  if (node != nullptr && !node->real) {
    table.error(name->line, "real", "\"" + name->value + "\"",
                "a port leads to a real node, and this node lacks real = true");
    node = nullptr;
  }
  const auto nic = table.integer("nic", 0, kMostNics - 1);
  const unsigned nic_line = nic ? nic->line : table.line();
  if (nic) port.nic = static_cast<unsigned>(nic->value);
  table.require("device", "a DPDK device: a PCI address, a vdev string, or \"virtual\"");
  if (const auto device = table.text("device")) {
    port.device = device->value;
    if (device->value.empty()) {
      table.error(device->line, "device", "an empty text",
                  "expected a PCI address, a vdev string, or \"virtual\"");
    }
    for (const PortConfig& other : context.config.ports) {
      if (other.device != port.device || port.device == "virtual") continue;
      table.error(device->line, "device", "\"" + port.device + "\"",
                  "this device already is the port in line " + std::to_string(other.line));
    }
  }
  if (const auto rate = table.rate("rate")) port.physical = rate->value;
  if (const auto stamps = table.boolean("transmit_time_stamps")) {
    port.transmit_time_stamps = stamps->value;
  }
  if (const auto cores = table.integer("cores", 1, kMostPortCores)) {
    port.cores = static_cast<unsigned>(cores->value);
    if (port.cores == kMostPortCores && port.transmit_time_stamps) {
      table.error(cores->line, "cores", std::to_string(port.cores),
                  "with transmit_time_stamps the packet thread sends itself: 1 or 2");
    }
  }
  if (const auto pfc = table.boolean("pfc")) {
    port.pfc = pfc->value;
    const auto& classes = context.config.queues.network.classes;
    if (port.pfc && std::none_of(classes.begin(), classes.end(),
                                 [](const ClassSettings& c) { return c.pfc.has_value(); })) {
      table.error(pfc->line, "pfc", "true", "no class of [queues] has pfc: nothing is ever paused");
    }
  }
  table.finish();

  if (node == nullptr) {
    context.ports_complete = false;
    return;
  }
  port.node = node->index;
  if (port.nic >= node->nics.size()) {
    table.error(nic_line, "nic", std::to_string(port.nic),
                "node " + node->name + " has " + std::to_string(node->nics.size()) + " NIC(s)");
    context.ports_complete = false;
    return;
  }
  for (const PortConfig& other : context.config.ports) {
    if (other.node != port.node || other.nic != port.nic) continue;
    table.error(nic_line, "nic", std::to_string(port.nic),
                "NIC " + std::to_string(port.nic) + " of node " + node->name +
                    " already has the port in line " + std::to_string(other.line));
    context.ports_complete = false;
  }
  if (context.addresses_complete && !has_address(node->nics[port.nic])) {
    table.error(
        nic_line, "nic", std::to_string(port.nic),
        "this NIC has no address: there is no [[prefix]] with nic = " + std::to_string(port.nic));
  }
  context.config.ports.push_back(std::move(port));
}

/// READs, ATOMICs and RDMA-CM's connections are reliable ones, ibv_ud_pingpong's are none.
bool may_be_unreliable(ServiceKind kind) {
  return kind == ServiceKind::kAuto || kind == ServiceKind::kPingpong ||
         kind == ServiceKind::kWriteBw || kind == ServiceKind::kWriteLat ||
         kind == ServiceKind::kSendBw || kind == ServiceKind::kSendLat;
}

void read_service(const TomlNode& toml, ReadContext& context) {
  TableReader table(toml, "service", context.errors);
  ServiceConfig service;
  service.line = table.line();
  table.require("node", "the name of an emulated node");
  table.require("port", "a TCP port");
  const auto name = table.text("node");
  const NodeConfig* node = name ? context.resolve(table, "node", *name) : nullptr;
  const auto port = table.integer("port", 1, 65535);
  table.choice_among("kind", kServiceKinds, service.kind);
  table.choice("connection", {{"rc", false}, {"uc", true}}, service.unreliable);
  if (service.unreliable && !may_be_unreliable(service.kind)) {
    const TomlNode* given = table.any("connection");
    table.error(given->line, "connection", given->describe(),
                "unreliable connections have kind auto, pingpong, write_bw, write_lat, send_bw or "
                "send_lat");
  }
  table.choice("memory",
               {{"discard", MemoryKind::kDiscard},
                {"pattern", MemoryKind::kPattern},
                {"backed", MemoryKind::kBacked}},
               service.memory);
  if (const auto delay = table.duration("accept_delay")) {
    service.accept_delay = delay->value;
    if (delay->value > kLongestAcceptDelay) {
      table.error(delay->line, "accept_delay", table.any("accept_delay")->describe(),
                  "expected at most 1000 s");
    } else if (service.kind == ServiceKind::kPingpong || service.kind == ServiceKind::kUdPingpong) {
      table.error(delay->line, "accept_delay", table.any("accept_delay")->describe(),
                  "it is for clients that come by RDMA-CM, which a pingpong does not");
    }
  }
  if (const auto mtu = table.integer("pingpong_mtu", 256, 4096)) {
    service.pingpong_mtu = static_cast<uint32_t>(mtu->value);
    if (!std::has_single_bit(service.pingpong_mtu)) {
      table.error(mtu->line, "pingpong_mtu", std::to_string(mtu->value),
                  "expected 256, 512, 1024, 2048 or 4096");
    }
  }
  read_sender(table, context, service.sender);
  if (const auto size = table.size("size")) {
    if (size->value >= 1 && size->value <= uint64_t{1} << 30) {
      service.message_bytes = static_cast<uint32_t>(size->value);
    } else {
      table.error(size->line, "size", table.any("size")->describe(), "expected 1 B to 1 GiB");
    }
  }
  table.finish();

  if (node == nullptr) return;
  if (node->real) {
    table.error(name->line, "node", "\"" + name->value + "\"",
                "a real node runs its own servers; a service belongs to an emulated node");
  } else if (context.addresses_complete &&
             std::none_of(node->nics.begin(), node->nics.end(), has_address)) {
    table.error(name->line, "node", "\"" + name->value + "\"",
                "this node has no address: there is no [[prefix]] for its NICs");
  }
  if (!port) return;
  service.node = node->index;
  service.port = static_cast<uint16_t>(port->value);
  for (const ServiceConfig& other : context.config.services) {
    if (other.node != service.node || other.port != service.port) continue;
    table.error(port->line, "port", std::to_string(service.port),
                "node " + node->name + " already has the service on this port in line " +
                    std::to_string(other.line));
  }
  const NodeId nodes[] = {service.node};
  name_sender(table, context, service.sender,
              "service " + node->name + ":" + std::to_string(service.port), nodes);
  context.config.services.push_back(service);
}

}  // namespace

void read_ports(TableReader& root, ReadContext& context) {
  for (const TomlNode* port : root.tables("port")) read_port(*port, context);
}

void read_services(TableReader& root, ReadContext& context) {
  for (const TomlNode* service : root.tables("service")) read_service(*service, context);
}

}  // namespace understudy
