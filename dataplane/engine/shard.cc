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

}  // namespace

Shard::Shard(const ShardConfig& config)
    : config_(config),
      links_(config.nodes.nics().size() * 2 * kClasses),
      ready_(config.nodes.nics().size() * kLines),
      cnps_(config.nodes.nics().size()),
      pool_(config.packets),
      events_(config.packets * 4 + config.queue_pairs * 4),
      pfc_(config.pfc, config.network == nullptr ? kNoClasses : config.network->settings.classes),
      regions_(config.regions),
      control_users_(config.control_users),
      qps_(config.queue_pairs + config.nodes.nics().size()),
      raw_(config.nodes.nics().size()),
      departures_{PacketFifo(config.packets), PacketFifo(config.packets)},
      send_now_(config.packets),
      commands_(kCommandRing),
      replies_(kCommandRing),
      to_host_(1 << 20),
      from_host_(1 << 20),
      notices_(1 << 20),
      faults_(config.faults, config.fault_seed, node_ids(config.nodes), config.queue_pairs),
      scratch_(config.faults.empty() ? 0 : kPacketBufferBytes) {
  heard_.reserve(config.queue_pairs);
  wakes_.reserve(config.packets);
  free_wakes_.reserve(config.packets);
  pending_.reserve(kCommandRing);
  free_pending_.reserve(kCommandRing);
  const auto& nics = config_.nodes.nics();
  while (real_ + 1 < nics.size() && !nics[real_].real) ++real_;
  for (uint32_t i = 0; i < nics.size(); ++i) {
    for (uint32_t cls = 0; cls < kClasses; ++cls) {
      links_[link_id(i, true, cls)] = Link(Rate(), config_.latencies[i]);
      links_[link_id(i, false, cls)] = Link(Rate(), config_.latencies[i]);
    }
    apply_rate(i, config_.rates[i]);
    qps_[raw_slot(i)].node = i;
  }
  if (config_.network != nullptr) {
    fabric_ = std::make_unique<SwitchedFabric>(config_.network, real_, config_.physical,
                                               config_.pfc.on, pool_,
                                               static_cast<FabricUser&>(*this), config_.background);
  }
}

void Shard::poll(Time now, TxSink& sink) {
  take_commands(now);
  run_events(now);
  send_due(now, sink);
  if (first_starved_ != kNoList) {
    feed_starved(now);
    send_due(now, sink);
  }
  drain_host(now, sink);
}

Time Shard::next_wake() const {
  if (!send_now_.empty() || !commands_.empty()) return Time::zero();
  uint32_t cls;
  return std::min({next_event(), next_departure(cls), pfc_.next_frame()});
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
