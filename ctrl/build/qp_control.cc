#include "ctrl/build/qp_control.h"

#include "dataplane/cc/make_controller.h"

namespace understudy {
namespace {

/// Bytes on the link around a full packet's payload, and of an ACK: Ethernet to ICRC, FCS,
/// preamble and gap.
constexpr uint32_t kOverhead = 82, kAckBytes = 86;
/// Departures that a law may ask for: 16 MiB in flight at a path MTU of 4096 bytes.
constexpr uint32_t kLogged = 4096;

/// Laws that go by round trips, or have a window, ask when packets left.
bool asks_for_departures(const ControlParameters& parameters, const Controller& law) {
  return law.window() != Controller::kNoWindow ||
         std::holds_alternative<TimelyParameters>(parameters) ||
         std::holds_alternative<SwiftParameters>(parameters);
}

}  // namespace

std::unique_ptr<QpControl> make_qp_control(const Config& config, const SenderConfig& sender,
                                           NodeId node, const PortConfig& port, uint32_t mtu,
                                           bool from_real) {
  if (sender.control == kNoControl) return nullptr;
  const ControlConfig& control = config.controls[sender.control];
  const NicConfig& emulated = config.nodes[node].nics[port.nic];
  const NicConfig& real = config.nodes[port.node].nics[port.nic];
  SenderPath path;
  path.line = (from_real ? real : emulated).link_rate;
  path.packet_bytes = mtu;
  for (const NicConfig* nic : {&emulated, &real}) {
    path.base_rtt += nic->link_latency * 2 + nic->link_rate.time_for(mtu + kOverhead) +
                     nic->link_rate.time_for(kAckBytes);
  }
  if (control.base_rtt) path.base_rtt = *control.base_rtt;
  QpControl::Setup setup;
  setup.law = make_controller(control.parameters, path);
  setup.user = sender.user;
  setup.switches = 1;
  setup.logged = asks_for_departures(control.parameters, *setup.law) ? kLogged : 0;
  return std::make_unique<QpControl>(std::move(setup));
}

}  // namespace understudy
