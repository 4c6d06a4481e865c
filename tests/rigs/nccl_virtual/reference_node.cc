#include "tests/rigs/nccl_virtual/reference_node.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "ctrl/shards/nccl_queue_pair.h"

namespace understudy::nccl_rank {
namespace {

NcclWire wire_of(const Config& config, const JobConfig& job) {
  const NetIbLayout& layout = net_ib_layout(job.nccl);
  return {.layout = layout.cts,
          .queue_pairs = job.join->queue_pairs,
          .split = job.join->split_data.value_or(layout.split_data),
          .failover = net_ib_environment(config).failover_of(job.nccl)};
}

/// As ibv_mtu.
int mtu_code(uint32_t mtu) { return std::countr_zero(mtu) - 7; }

}  // namespace

void SpareConnection::prepare(const NcclQps& qps, const LinkNearEnd& theirs, uint32_t devices,
                              const DeviceRkeys& keys) {
  if (link_.sends) {
    sender_.connect({.qps = qps,
                     .layout = layout_,
                     .fifo = region.bytes,
                     .failover = end.failover.exists() ? &failover : nullptr});
    return;
  }
  staging_.resize(size_t{layout_.slots} * layout_.entry_bytes);
  receiver_.connect({.qps = qps,
                     .layout = layout_,
                     .fifo_va = theirs.va,
                     .fifo_rkey = keys,
                     .devices = devices,
                     .buffer_va = region.va,
                     .buffer_rkey = region.rkey,
                     .slots = 1,
                     .slot_bytes = kBytes,
                     .sender_rank = static_cast<uint32_t>(link_.peer),
                     .staging = staging_.data(),
                     .failover = end.failover.exists() ? &failover : nullptr,
                     .records = records.bytes});
}

void SpareConnection::on_wake(Time now, uint64_t) {
  wanted_ = true;
  if (link_.sends) {
    send(now);
  } else {
    receiver_.grant(now, *host_);
  }
}

void SpareConnection::send(Time now) {
  if (!wanted_ || sent_ || !sender_.has_credit(0)) return;
  sent_ = sender_.send(now, *host_, 0, kBytes, PayloadRef{}, 0);
}

void SpareConnection::on_received(Time now, Qp& qp, const Received& message) {
  if (link_.sends) return send(now);
  receiver_.received(qp, message, [&](uint32_t bytes) { exchanged_ = bytes == kBytes; });
}

void SpareConnection::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  if (status != WorkStatus::kSuccess) {
    if (link_.sends) {
      sender_.fails_over(now, qp, id, status);
    } else {
      receiver_.fails_over(now, *host_, qp, id, status);
    }
    return;
  }
  if (!link_.sends) return;
  sender_.acknowledged(qp, id, [&](uint64_t) { exchanged_ = true; });
}

ReferenceNode::ReferenceNode(const Config& config, const JobConfig& job, JobState& state,
                             uint32_t real, ShardControl& control)
    : config_(config),
      job_(job),
      setup_(*state.setup),
      first_(setup_.job.real[real * setup_.communicator.gpus]),
      control_(control),
      wire_(wire_of(config, job)),
      ranks_(RanksHost::create(config, job, state, real, control, wire_).value()) {
  for (uint32_t gpu = 0; gpu < setup_.communicator.gpus; ++gpu) {
    adapters_.emplace_back(*this, first_ + gpu);
  }
}

std::optional<uint32_t> ReferenceNode::link_of(uint32_t rank, const Link& link) const {
  const auto& links = setup_.job.links;
  for (uint32_t l = 0; l < links.size(); ++l) {
    const Link same{static_cast<int>(links[l].channel), static_cast<int>(links[l].far),
                    links[l].index, links[l].real_sends};
    if (links[l].real == rank && same == link) return l;
  }
  return std::nullopt;
}

const NodeConfig& ReferenceNode::node_of(uint32_t rank) const {
  return config_.nodes[job_.ranks[setup_.communicator.node_of(rank)]];
}

std::vector<unsigned> ReferenceNode::nics_of(uint32_t rank) const {
  const unsigned first = setup_.communicator.nic_of(rank);
  std::vector<unsigned> all(merged_nics(job_, node_of(rank), first));
  std::iota(all.begin(), all.end(), first);
  return all;
}

IbSide ReferenceNode::open(uint32_t rank, const Link& link) {
  const NodeConfig& node = node_of(rank);
  const auto peer = static_cast<uint32_t>(link.peer);
  const auto number = link_of(rank, link);
  LinkNearEnd end;
  if (number && opened_.insert(*number).second) {
    end = ranks_->end(*number);
  } else {
    SpareConnection& spare = spares_.emplace_back(rank, link, wire_.layout);
    const size_t parts = std::max(nics_of(rank).size(), nics_of(peer).size());
    while (spare.end.qpns.size() < wire_.queue_pairs * parts) {
      spare.end.qpns.push_back(control_.take_qpn());
    }
    const uint64_t bytes = link.sends ? wire_.layout.fifo_bytes() : SpareConnection::kBytes;
    spare.region =
        control_.add_region(node.index, bytes, kAccessRemoteWrite, RegionKind::kBacked).value();
    spare.end.va = spare.region.va;
    spare.end.rkey = spare.region.rkey;
    if (wire_.failover) {
      const auto counts =
          failover_counts(*wire_.failover, link.sends, nics_of(rank).size(), nics_of(peer).size());
      take_failover(control_, node.index, link.sends, counts, spare.end.failover, spare.records);
    }
    end = spare.end;
  }
  IbSide side;
  side.qpns = end.qpns;
  const JobConfig& first = job_.child ? config_.jobs[job_.child->job] : job_;
  side.first_device = static_cast<int>(nics_of(rank).front() - job_nic(config_, first, 0));
  for (const unsigned nic : nics_of(rank)) {
    side.gids.push_back(roce_address(node.nics[nic]));
    const bool records = end.failover.exists() && !link.sends;
    side.rkeys.push_back(records ? end.failover.records_rkey : end.rkey);
    side.address = records ? end.failover.records_va : end.va;
  }
  side.probing = end.failover.probing;
  side.recovery = end.failover.recovery;
  side.mtu = mtu_code(config_.fabric.mtu);
  return side;
}

void ReferenceNode::connect(const IbSide& own, const IbSide& theirs) {
  LinkNearEnd far{theirs.qpns, theirs.address, theirs.rkeys[0]};
  // A receiver's memory is that of its records then.
  far.failover = {theirs.probing, theirs.recovery, theirs.address, theirs.rkeys[0]};
  for (const uint32_t link : opened_) {
    if (ranks_->end(link).qpns != own.qpns) continue;
    ranks_->connect(link, far);
    connected_.insert(link);
    return;
  }
  const auto spare = std::ranges::find_if(
      spares_, [&](const SpareConnection& s) { return s.end.qpns == own.qpns; });
  const auto peer = static_cast<uint32_t>(spare->link().peer);
  const std::vector<unsigned> ours = nics_of(spare->rank()), others = nics_of(peer);
  const auto count = static_cast<uint32_t>(std::max(ours.size(), others.size()));
  NcclQps qps{{}, wire_.split, count};
  for (size_t q = 0; q < own.qpns.size(); ++q) {
    qps.far_device.push_back(static_cast<uint8_t>(q % others.size()));
    const NcclNic real{&node_of(spare->rank()), ours[q % ours.size()]};
    const NcclNic emulated{&node_of(peer), others[q % others.size()]};
    QpConfig config = nccl_queue_pair(config_, job_.nccl, real, emulated, own.qpns[q], far.qpns[q],
                                      config_.fabric.mtu, 0, !spare->link().sends);
    config.addressing.dst_mac = emulated.node->nics[emulated.nic].mac;
    control_.add_qp(config, *spare, true, [&](Qp& qp) {
      qps.all.push_back(&qp);
      if (qps.count() != own.qpns.size()) return;
      const auto devices = static_cast<uint32_t>(ours.size());
      spare->prepare(qps, far, devices, {far.rkey, others.size()});
    });
  }
  if (!spare->end.failover.exists()) return;
  const FailoverLink further{.config = config_,
                             .version = job_.nccl,
                             .settings = *wire_.failover,
                             .sends = spare->link().sends,
                             .near = node_of(spare->rank()),
                             .far = node_of(peer),
                             .near_nics = {ours.begin(), ours.end()},
                             .far_nics = {others.begin(), others.end()},
                             .theirs = far.failover,
                             .records_va = far.va,
                             .records_rkey = {far.rkey, others.size()},
                             .mtu = config_.fabric.mtu,
                             .traffic_class = 0,
                             .knows_neighbours = false};
  add_failover(control_, further, spare->end.failover, qps.all, *spare, spare->failover_counters,
               spare->failover);
}

bool ReferenceNode::can_carry(size_t operation) const {
  for (uint32_t l = 0; l < setup_.job.links.size(); ++l) {
    if (!ranks_->is_own(l) || connected_.contains(l)) continue;
    if (setup_.job.messages(operation, l) > 0) return false;
  }
  return true;
}

void ReferenceNode::vanish() {
  for (const uint32_t link : connected_) {
    for (const Qpn qpn : ranks_->end(link).qpns) control_.modify_qp(qpn, QpState::kError);
  }
}

void ReferenceNode::lose_device(size_t device) {
  for (const uint32_t link : connected_) {
    const std::vector<Qpn>& qpns = ranks_->end(link).qpns;
    const size_t devices = nics_of(setup_.job.links[link].real).size();
    for (size_t q = device; q < qpns.size(); q += devices) {
      control_.modify_qp(qpns[q], QpState::kError);
    }
  }
}

void ReferenceNode::use_spares() {
  for (; used_ < spares_.size(); ++used_) control_.wake(spares_[used_], 0);
}

}  // namespace understudy::nccl_rank
