#include "ctrl/jobs/ranks_host.h"

#include <algorithm>

#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "ctrl/schedule/net_ib_environment.h"
#include "dataplane/base/try.h"

namespace understudy {

NcclWire NcclWire::of_joined(const Config& config, const JobConfig& job) {
  const NetIbLayout& layout = net_ib_layout(job.nccl);
  return {.layout = layout.cts,
          .queue_pairs = job.join->queue_pairs,
          .split = job.join->split_data.value_or(layout.split_data),
          .failover = net_ib_environment(config).failover_of(job.nccl)};
}

NcclWire NcclWire::alone(const JobConfig& job) {
  NcclWire wire;
  if (job.merged_nics > wire.layout.devices()) wire.layout = CtsLayout::with_eight_devices();
  return wire;
}

bool RanksHost::is_own(uint32_t link) const {
  const uint32_t real = setup_.job.real_index[setup_.job.links[link].real];
  return real >= own_.first && real < own_.end;
}

Result<std::unique_ptr<RanksHost>> RanksHost::create(const Config& config, const JobConfig& job,
                                                     JobState& state, uint32_t node,
                                                     ShardControl& control, const NcclWire& wire) {
  const uint32_t gpus = state.setup->communicator.gpus;
  const ReferenceRanks::Own own{node * gpus, (node + 1) * gpus};
  // The reference node's own, not the emulator's.
  const uint64_t input_seed = splitmix64(config.seed);
  std::unique_ptr<RanksHost> host(
      new RanksHost(config, job, state, own, control, wire, input_seed, true));
  TRY(host->allocate());
  return host;
}

Result<std::unique_ptr<RanksHost>> RanksHost::create_beside_programs(const Config& config,
                                                                     const JobConfig& job,
                                                                     JobState& state, uint32_t node,
                                                                     ShardControl& control,
                                                                     const NcclWire& wire) {
  const uint32_t gpus = state.setup->communicator.gpus;
  const ReferenceRanks::Own own{node * gpus, (node + 1) * gpus};
  std::unique_ptr<RanksHost> host(
      new RanksHost(config, job, state, own, control, wire, state.setup->job.seed, false));
  TRY(host->allocate());
  return host;
}

/// That the far end writes to: of collectives as NCCL has it, whose addresses tell the steps.
uint64_t RanksHost::received_bytes(uint32_t link) const {
  const CollectiveConnection& l = setup_.job.links[link];
  const NcclBuffers buffers = buffers_of(setup_);
  if (l.index != 0) return buffer_bytes(l, l.slots);
  // A small credit of PAT's may look like one of LL's.
  const bool simple = setup_.protocol == Protocol::kSimple && setup_.algorithm.has_value() &&
                      setup_.algorithm != Algorithm::kPat;
  return setup_.job.exact && simple ? buffers.simple : NcclReceiver::stepped_bytes(buffers);
}

Result<void> RanksHost::allocate() {
  const CollectiveJob& out = setup_.job;
  ReferenceRanks::Memory memory;
  memory.input_seed = input_seed_;
  memory.verifies = verifies_;
  const RegionKind contents = out.exact ? RegionKind::kBacked : RegionKind::kDiscard;
  memory.received.resize(ends_.size());
  memory.sent.resize(ends_.size());
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!is_own(l)) continue;
    const CollectiveConnection& link = out.links[l];
    End& end = ends_[l];
    const NodeId node = node_of(config_, job_, setup_, link.real).index;
    const LinkRoom room = room_of(out, l, layout_, is_told());
    auto region =
        link.real_sends
            ? control_.add_region(node, room.fifo_bytes(), kAccessRemoteWrite, RegionKind::kBacked)
            : control_.add_region(node, received_bytes(l), kAccessRemoteWrite, contents);
    if (!region) return fail("job \"" + job_.name + "\": " + region.error().text);
    end.region = *region;
    if (!link.real_sends) end.staging.reset(room.new_staging());
    if (out.exact && link.real_sends) {
      const ReferenceRanks::SentRoom sent = ReferenceRanks::sent_room(out, l);
      end.sent.resize(std::max<uint64_t>(1, sent.slots * sent.bytes));
    }
    memory.received[l] = link.real_sends ? nullptr : region->bytes;
    memory.sent[l] = end.sent.data();
    end.link = {{}, region->va, region->rkey};
    const LinkDevices these = devices(l);
    TRY(take_queue_pairs(end.link, size_t{wire_.queue_pairs} * these.most()));
    if (!wire_.failover) continue;
    TRY(take_failover_of(
        l, failover_counts(*wire_.failover, link.real_sends, these.near.size(), these.far.size())));
  }
  ranks_ = std::make_unique<ReferenceRanks>(out, state_, own_, progress_, memory);
  return {};
}

/// So many instead of those that it has.
Result<void> RanksHost::take_queue_pairs(LinkNearEnd& end, size_t count) {
  for (; end.qpns.size() > count; end.qpns.pop_back()) control_.return_qpn(end.qpns.back());
  while (end.qpns.size() < count) {
    const Qpn qpn = control_.take_qpn();
    if (qpn == 0) return no_queue_pair();
    end.qpns.push_back(qpn);
  }
  return {};
}

Result<void> RanksHost::take_failover_of(uint32_t link, const FailoverCounts& counts) {
  const CollectiveConnection& l = setup_.job.links[link];
  const NodeId node = node_of(config_, job_, setup_, l.real).index;
  End& end = ends_[link];
  if (take_failover(control_, node, l.real_sends, counts, end.link.failover, end.records)) {
    return {};
  }
  return no_queue_pair();
}

Result<void> RanksHost::connect(EmulatedRanksBinding& emulated,
                                const std::vector<std::unique_ptr<RanksHost>>& all) {
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!is_own(l)) continue;
    const CollectiveConnection& link = setup_.job.links[l];
    if (link.among_real()) {
      const auto other = std::ranges::find_if(
          all, [&](const auto& host) { return host != nullptr && host->is_own(link.twin); });
      if (other != all.end()) {
        connect(l, (*other)->ends_[link.twin].link);
      } else if (job_.join) {
        ranks_->await(l);
        if (is_first(l)) ++awaited_;
      }
      continue;
    }
    TRY(connect(l, emulated));
    emulated.join(l);
  }
  return {};
}

tl::unexpected<Error> RanksHost::no_queue_pair() const {
  return fail("job \"" + job_.name + "\": no queue pair is left: it has " +
              std::to_string(setup_.job.links.size()) +
              " connections to real ranks, and limits.queue_pairs is " +
              std::to_string(config_.limits.queue_pairs));
}

Result<void> RanksHost::connect(uint32_t l, EmulatedRanksBinding& emulated) {
  const LinkDevices ours = devices(l);
  FailoverCounts further;
  if (wire_.failover) {
    further = failover_counts(*wire_.failover, !setup_.job.links[l].real_sends, ours.far.size(),
                              ours.near.size());
  }
  const LinkNearEnd theirs = emulated.open(l, wire_.queue_pairs * ours.most(), further);
  if (theirs.qpns.empty()) return no_queue_pair();
  connect(l, theirs);
  LinkFarEnd us;
  us.qpns = ends_[l].link.qpns;
  us.split = wire_.split;
  us.parts = ours.most();
  us.devices = ours.seen_from_far(us.qpns.size());
  us.checked = true;
  us.mtu = config_.fabric.mtu;
  us.traffic_class = job_.sender.traffic_class;
  us.failover = ends_[l].link.failover;
  if (setup_.job.links[l].real_sends) {
    us.fifo_va = ends_[l].region.va;
    us.fifo_rkey = {ends_[l].region.rkey, ours.near.size()};
  } else if (us.failover.exists()) {
    us.fifo_va = us.failover.records_va;
    us.fifo_rkey = {us.failover.records_rkey, ours.near.size()};
  }
  emulated.connect(l, us);
  return {};
}

LinkDevices RanksHost::devices(uint32_t l) const {
  return link_devices(config_, job_, setup_, setup_.job.links[l], ends_[l].link.qpns.size());
}

void RanksHost::connect(uint32_t l, const LinkNearEnd& theirs) {
  LinkFarEnd far;
  far.qpns = theirs.qpns;
  far.split = wire_.split;
  far.devices = devices(l);
  far.parts = far.devices.most();
  far.mtu = config_.fabric.mtu;
  far.traffic_class = job_.sender.traffic_class;
  far.fifo_va = theirs.va;
  far.fifo_rkey = {theirs.rkey, far.devices.far.size()};
  far.failover = theirs.failover;
  if (setup_.job.links[l].real_sends && far.failover.exists()) {
    far.fifo_va = far.failover.records_va;
    far.fifo_rkey = {far.failover.records_rkey, far.devices.far.size()};
  }
  connect(l, std::move(far));
}

void RanksHost::connect(uint32_t l, LinkFarEnd far) {
  const CollectiveConnection& link = setup_.job.links[l];
  End& end = ends_[l];
  const NodeConfig& far_node = node_of(config_, job_, setup_, link.far);
  end.connected = true;
  NcclQps qps{{}, far.split, far.parts, far.devices.far_of};
  if (far.failover.exists() && end.link.failover.exists()) {
    end.failover = std::make_unique<PortFailover>();
  }
  for (size_t q = 0; q < far.qpns.size(); ++q) {
    const uint32_t real_nic = far.devices.near_nic(q, link.real_nic);
    const uint32_t far_nic = far.devices.far_nic(q, link.far_nic);
    QpConfig qp_config =
        link_queue_pair(config_, job_.nccl, {&node_of(config_, job_, setup_, link.real), real_nic},
                        {&far_node, far_nic}, end.link.qpns[q], far.qpns[q], far, !link.real_sends);
    if (end.failover == nullptr) {
      qp_config.send_queue = room_of(setup_.job, l, layout_, is_told()).send_queue;
    }
    qp_config.addressing.dst_mac = far_node.nics[far_nic].mac;
    const auto prepare = [&](Qp& qp) {
      qps.all.push_back(&qp);
      if (qps.count() < far.qpns.size()) return;
      if (link.real_sends) {
        ranks_->sender(l).connect(
            {.qps = qps,
             .layout = layout_,
             .fifo = end.region.bytes,
             // A program looks at the flags of its lines.
             .collective = (setup_.job.exact || far.checked) && link.index == 0,
             .buffers = buffers_of(setup_),
             .several_receives = far.checked && far.fifo_va != 0 && link.index != 0,
             .sizes_va = far.fifo_va,
             .sizes_rkey = far.fifo_rkey,
             .violations = far.checked ? &progress_.violations : nullptr,
             .registered = far.checked ? &progress_.registered : nullptr,
             .failover = end.failover.get()});
      } else {
        ranks_->receiver(l).connect({.qps = qps,
                                     .layout = layout_,
                                     .fifo_va = far.fifo_va,
                                     .fifo_rkey = far.fifo_rkey,
                                     .devices = far.devices.near_count(),
                                     .buffer_va = end.region.va,
                                     .buffer_rkey = end.region.rkey,
                                     .slots = link.slots,
                                     .slot_bytes = link.slot_bytes,
                                     .stepped = link.index == 0,
                                     .own_slots = setup_.job.exact,
                                     .buffers = buffers_of(setup_),
                                     .sender_rank = far.tag.value_or(link.far),
                                     .staging = end.staging.get(),
                                     .failover = end.failover.get(),
                                     .records = end.records.bytes});
      }
    };
    auto steered = link.real_sends
                       ? data_control(config_, job_, setup_, link, real_nic, far_nic, far.mtu)
                       : nullptr;
    if (steered != nullptr) {
      controlled_.push_back(
          {queue_pair_name(config_, job_, setup_, link, q), steered.get(), qp_config.qpn});
    }
    control_.add_qp(qp_config, ranks_->endpoint(l), link.real_sends || setup_.job.exact, prepare,
                    std::move(steered));
  }
  if (end.failover != nullptr) connect_failover(l, far, std::move(qps.all));
}

void RanksHost::connect_failover(uint32_t l, const LinkFarEnd& far, std::vector<Qp*> data) {
  const CollectiveConnection& link = setup_.job.links[l];
  End& end = ends_[l];
  add_failover(control_, failover_link(config_, job_, setup_, link, far, true, *wire_.failover),
               end.link.failover, std::move(data), ranks_->endpoint(l), progress_.failover,
               *end.failover);
}

Result<EndpointReady> RanksHost::serve(uint32_t l, const EndpointRequest& request) {
  End& end = ends_[l];
  if (end.connected) return fail("the connection has been made already");
  TRY(take_queue_pairs(end.link, request.nccl->queue_pairs));
  if (const auto& further = request.nccl->failover; further && !end.link.failover.exists()) {
    TRY(take_failover_of(l, {further->probing, further->recovery}));
  }
  if (!request.reserve) {
    const CollectiveConnection& link = setup_.job.links[l];
    connect(l, told_far_end(node_of(config_, job_, setup_, link.real),
                            node_of(config_, job_, setup_, link.far), request));
  }
  return told_near_end(end.link, !setup_.job.links[l].real_sends);
}

void RanksHost::join(uint32_t link) {
  if (std::exchange(ends_[link].joined, true)) return;
  if (is_first(link)) --awaited_;
  control_.wake(*ranks_, ReferenceRanks::joins(link));
}

void RanksHost::close(uint32_t link) {
  End& end = ends_[link];
  const bool done = progress_.finished == progress_.results.size();  // and so it sends no more
  if (!done || !end.connected || std::exchange(end.closed, true)) return;
  for (const Qpn qpn : end.link.qpns) {
    std::erase_if(controlled_, [&](const ControlledPair& pair) { return pair.qpn == qpn; });
    control_.remove_qp(qpn);
  }
  if (end.failover == nullptr) return;
  control_.wake(*end.failover, PortFailover::kStop);
  const FailoverEnd& further = end.link.failover;
  for (const Qpn qpn : further.probing) control_.remove_qp(qpn);
  for (const Qpn qpn : further.recovery) control_.remove_qp(qpn);
}

}  // namespace understudy
