#include "ctrl/shards/nccl_failover.h"

#include <algorithm>
#include <utility>

#include "ctrl/shards/nccl_queue_pair.h"

namespace understudy {
namespace {

constexpr uint32_t kShortQueue = 16;  // a batch, and the word behind it

/// Number `q` of them, which is on device q % devices at either end.
QpConfig further_queue_pair(const FailoverLink& link, size_t q, Qpn qpn, Qpn remote) {
  const uint32_t near_nic = link.near_nics[q % link.near_nics.size()];
  const uint32_t far_nic = link.far_nics[q % link.far_nics.size()];
  QpConfig qp =
      nccl_queue_pair(link.config, link.version, {&link.near, near_nic}, {&link.far, far_nic}, qpn,
                      remote, link.mtu, link.traffic_class, false);
  qp.max_rd_atomic = qp.max_dest_rd_atomic = 1;
  if (!link.knows_neighbours) qp.addressing.dst_mac = link.far.nics[far_nic].mac;
  return qp;
}

bool take(ShardControl& control, size_t count, std::vector<Qpn>& out) {
  while (out.size() < count) {
    const Qpn qpn = control.take_qpn();
    if (qpn == 0) return false;
    out.push_back(qpn);
  }
  return true;
}

}  // namespace

FailoverCounts failover_counts(const FailoverSettings& settings, bool sends, size_t near,
                               size_t far) {
  return {sends ? near : far, settings.recovery ? std::max(near, far) : 0};
}

bool take_failover(ShardControl& control, NodeId node, bool sends, const FailoverCounts& counts,
                   FailoverEnd& end, ExposedRegion& records) {
  bool got =
      take(control, counts.probing, end.probing) && take(control, counts.recovery, end.recovery);
  if (got && !sends && records.bytes == nullptr) {
    const auto region =
        control.add_region(node, CompletionRecords::kBytes, kAccessRemoteRead | kAccessRemoteWrite,
                           RegionKind::kBacked);
    got = region.has_value();
    if (got) records = *region;
  }
  if (got) {
    end.records_va = records.va;
    end.records_rkey = records.rkey;
    return true;
  }
  return_failover(control, end, records);
  end = {};
  records = {};
  return false;
}

void return_failover(ShardControl& control, const FailoverEnd& end, const ExposedRegion& records) {
  for (const auto& all : {end.probing, end.recovery}) {
    for (const Qpn qpn : all) control.return_qpn(qpn);
  }
  if (records.bytes != nullptr) control.remove_region(records.index);
}

void add_failover(ShardControl& control, const FailoverLink& link, const FailoverEnd& ours,
                  std::vector<Qp*> data, Endpoint& endpoint, FailoverCounters& counters,
                  PortFailover& failover) {
  PortFailover::Setup setup;
  setup.sends = link.sends;
  setup.devices = static_cast<uint32_t>(link.near_nics.size());
  setup.data = std::move(data);
  setup.settings = link.settings;
  setup.endpoint = &endpoint;
  setup.records_va = link.records_va;
  setup.counters = &counters;
  const size_t all = ours.probing.size() + ours.recovery.size();
  size_t made = 0;
  const auto add = [&](const QpConfig& config, std::vector<Qp*>& list) {
    const bool reads = link.sends && !config.unreliable;
    control.add_qp(config, failover, reads, [&](Qp& qp) {
      list.push_back(&qp);
      if (++made == all) failover.connect(setup);
    });
  };
  for (size_t q = 0; q < ours.probing.size(); ++q) {
    QpConfig config = further_queue_pair(link, q, ours.probing[q], link.theirs.probing[q]);
    config.access = link.sends ? 0 : kAccessRemoteRead;
    config.send_queue = link.sends ? CompletionRecords::kSlots : 1;
    setup.records_rkey.push_back(link.records_rkey[q % link.far_nics.size()]);
    add(config, setup.probing);
  }
  for (size_t q = 0; q < ours.recovery.size(); ++q) {
    QpConfig config = further_queue_pair(link, q, ours.recovery[q], link.theirs.recovery[q]);
    config.unreliable = true;
    config.access = 0;
    config.send_queue = kShortQueue;
    add(config, setup.recovery);
  }
}

}  // namespace understudy
