#include "dataplane/engine/shard.h"

#include <algorithm>

namespace understudy {
namespace {

const std::vector<ClassSettings> kNoClasses;

std::vector<NodeId> node_ids(const NodeTable& nodes) {
  std::vector<NodeId> ids;
  for (const NodeNic& nic : nodes.nics()) ids.push_back(nic.id);
  return ids;
}

/// A queue pair's timer; under congestion control, its pacing and its law's timer as well.
size_t events_of_qp(const ShardConfig& config) { return config.control_users == 0 ? 1 : 3; }

}  // namespace

Shard::Shard(const ShardConfig& config)
    : config_(config),
      port_at_(config.nodes.nics().size(), kNoPort),
      links_(config.nodes.nics().size() * 2 * kClasses),
      ready_(config.nodes.nics().size() * kLines),
      cnps_(config.nodes.nics().size()),
      pool_(config.packets),
      events_(config.packets * 4 + config.queue_pairs * events_of_qp(config),
              config.packets * 4 + config.nodes.nics().size() * 4),
      regions_(config.regions),
      control_users_(config.control_users),
      qps_(config.queue_pairs + config.nodes.nics().size()),
      rest_(qps_.size()),
      raw_(config.nodes.nics().size()),
      heads_(kHeadTemplates),
      to_host_(1 << 20),
      from_host_(1 << 20),
      notices_(1 << 20),
      faults_(config.faults, config.fault_seed, node_ids(config.nodes), config.queue_pairs),
      scratch_(config.faults.empty() ? 0 : kPacketBufferBytes) {
  heard_.reserve(config.queue_pairs);
  wakes_.reserve(config.packets);
  free_wakes_.reserve(config.packets);
  pending_.reserve(kPending);
  free_pending_.reserve(kPending);
  const auto& nics = config_.nodes.nics();
  for (uint32_t i = 0; i < nics.size(); ++i) {
    if (!nics[i].real) continue;
    port_at_[i] = static_cast<uint32_t>(ports_.size());
    ports_.emplace_back(i, config.wires[ports_.size()], config_);
  }
  if (ports_.empty()) {
    port_at_.back() = 0;
    ports_.emplace_back(static_cast<uint32_t>(nics.size()) - 1, config.wires.front(), config_);
  }
  for (uint32_t i = 0; i < nics.size(); ++i) {
    for (uint32_t cls = 0; cls < kClasses; ++cls) {
      links_[link_id(i, true, cls)] = Link(Rate(), config_.latencies[i]);
      links_[link_id(i, false, cls)] = Link(Rate(), config_.latencies[i]);
    }
    apply_rate(i, config_.rates[i]);
    qps_[raw_slot(i)].node = i;
    qps_[raw_slot(i)].real = ports_.front().nic;
  }
  if (config_.network != nullptr) {
    std::vector<RealEnd> ends;
    for (const Port& port : ports_) ends.push_back({port.nic, port.physical, port.pfc.on()});
    fabric_ = std::make_unique<SwitchedFabric>(config_.network, std::move(ends), pool_,
                                               static_cast<FabricUser&>(*this), config_.background);
  }
}

Shard::Port::Port(uint32_t nic_position, const ShardWire& wire, const ShardConfig& config)
    : nic(nic_position),
      physical(wire.physical),
      in(wire.physical),
      out(wire.physical),
      pfc(wire.pfc, config.network == nullptr ? kNoClasses : config.network->settings.classes),
      departures{PacketFifo(config.packets), PacketFifo(config.packets)},
      send_now(config.packets) {}

void Shard::poll(Time now, std::span<TxSink* const> sinks) {
  take_commands(now);
  run_events(now);
  for (uint32_t i = 0; i < ports_.size(); ++i) send_due(ports_[i], now, *sinks[i]);
  if (first_starved_ != kNoList) {
    feed_starved(now);
    for (uint32_t i = 0; i < ports_.size(); ++i) send_due(ports_[i], now, *sinks[i]);
  }
  drain_host(now, sinks);
}

/// The real NIC that what the NIC at `node` sends to this address goes to. A reference node knows
/// no addresses of others: all are at the end of its NIC's cable.
uint32_t Shard::real_for(const IpAddress& to, uint32_t node) const {
  if (ports_.size() == 1) return ports_.front().nic;
  const auto& nics = config_.nodes.nics();
  const NodeNic* nic = config_.nodes.find(to);
  if (nic != nullptr && nic->real) return config_.nodes.position(*nic);
  for (const Port& port : ports_) {
    if (nics[port.nic].nic == nics[node].nic) return port.nic;
  }
  return ports_.front().nic;
}

Time Shard::next_wake() const {
  if (!control_.commands.empty() || (!from_host_.empty() && !host_waits_)) return Time::zero();
  Time next = std::min(next_event(), host_asks_again_);
  uint32_t cls;
  for (const Port& port : ports_) {
    if (!port.send_now.empty()) return Time::zero();
    next = std::min({next, next_departure(port, cls), port.pfc.next_frame()});
  }
  return next;
}

bool Shard::post(Time now, Qp& qp, const WorkRequest& request) {
  const uint32_t slot = slot_of(qp.config().qpn);
  if (slot == kNoSlot || qps_[slot].qp != &qp || !qp.post(request)) return false;
  kick(slot, now);
  return true;
}

void Shard::wake_at(Time t, Endpoint& endpoint, uint64_t cookie) {
  uint32_t slot;
  if (free_wakes_.empty()) {
    slot = static_cast<uint32_t>(wakes_.size());
    wakes_.push_back({});
  } else {
    slot = free_wakes_.back();
    free_wakes_.pop_back();
  }
  wakes_[slot] = {&endpoint, cookie};
  events_.push(t, EventKind::kWake, slot);
}

const char* drop_name(Drop reason) {
  static constexpr std::array<const char*, static_cast<size_t>(Drop::kCount)> kNames = {
      "truncated",  "too_long",    "bad_ip",         "bad_tver",   "bad_opcode", "bad_pad",
      "bad_icrc",   "unknown_qpn", "wrong_address",  "wrong_pkey", "wrong_vlan", "other_ethertype",
      "not_for_us", "no_buffer",   "host_ring_full", "fault",      "wrong_qkey", "control_busy",
      "queue_full", "link_loss",   "link_down"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace understudy
