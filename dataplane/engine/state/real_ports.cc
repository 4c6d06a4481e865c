#include "dataplane/engine/state/real_ports.h"

namespace understudy {
namespace {

const std::vector<ClassSettings> kNoClasses;

}  // namespace

RealPort::RealPort(uint32_t nic_position, const ShardWire& wire, const ShardConfig& config)
    : nic(nic_position),
      physical(wire.physical),
      in(wire.physical),
      out(wire.physical),
      pfc(wire.pfc, config.network == nullptr ? kNoClasses : config.network->settings.classes),
      departures{PacketFifo(config.packets), PacketFifo(config.packets)},
      send_now(config.packets) {}

RealPorts::RealPorts(ShardConfig& config)
    : nodes_(config.nodes), port_at_(config.nodes.nics().size(), kNoPort) {
  const auto& nics = nodes_.nics();
  for (uint32_t i = 0; i < nics.size(); ++i) {
    if (!nics[i].real) continue;
    port_at_[i] = static_cast<uint32_t>(ports_.size());
    ports_.emplace_back(i, config.wires[ports_.size()], config);
  }
  if (ports_.empty()) {
    port_at_.back() = 0;
    ports_.emplace_back(static_cast<uint32_t>(nics.size()) - 1, config.wires.front(), config);
  }
}

uint32_t RealPorts::nic_toward(const IpAddress& to, uint32_t node) const {
  if (ports_.size() == 1) return ports_.front().nic;
  const auto& nics = nodes_.nics();
  const NodeNic* nic = nodes_.find(to);
  if (nic != nullptr && nic->real) return nodes_.position(*nic);
  for (const RealPort& port : ports_) {
    if (nics[port.nic].nic == nics[node].nic) return port.nic;
  }
  return ports_.front().nic;
}

void RealPorts::set_mac(const IpAddress& from, const MacAddress& mac) {
  NodeNic* nic = nodes_.find(from);
  if (nic == nullptr || !nic->real || !is_here(*nic)) return;
  nic->mac = mac;
  nic->mac_known = true;
}

}  // namespace understudy
