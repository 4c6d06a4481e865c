#include "ctrl/session/collective_links.h"

#include <algorithm>

#include "ctrl/build/qp_control.h"
#include "ctrl/session/inferred_operations.h"
#include "ctrl/session/inferred_pairs.h"

namespace understudy {
namespace {

/// NCCL's attributes (rocev2 A0): PSNs from 0, timeout 20, both retry counts 7, RNR timer 12.
QpConfig nccl_qp(const Config& config, const NodeConfig& from, unsigned from_nic,
                 const NodeConfig& to, unsigned to_nic, Qpn qpn, const LinkFarEnd& far,
                 bool credits) {
  QpConfig qp;
  qp.node = from.index;
  qp.qpn = qpn;
  qp.remote_qpn = far.qpn;
  qp.rq_psn = far.psn;
  qp.sq_psn = far.expects;
  qp.mtu = far.mtu;
  qp.timeout = 20;
  qp.min_rnr_timer = 12;
  qp.control = credits;
  qp.access = kAccessRemoteWrite;  // as NCCL makes its queue pairs
  qp.addressing = addressing(from.nics[from_nic], to.nics[to_nic], far.traffic_class);
  qp.addressing.udp_src = udp_source_port(config, qpn, far.qpn);
  return qp;
}

const NodeConfig& node_of(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                          uint32_t rank) {
  return config.nodes[job.ranks[setup.communicator.node_of(rank)]];
}

/// What the ends of a link need for its messages, as far as that is less than NCCL has. There may
/// be thousands of links with one message each.
struct LinkRoom {
  uint32_t send_queue = QpConfig().send_queue;
  uint32_t credits = kCtsSlots;  ///< of the FIFO, one more than are granted

  uint64_t fifo_bytes() const { return uint64_t{credits} * kCtsSlotStride; }
  uint8_t* new_staging() const { return new uint8_t[size_t{credits} * kCtsEntryBytes]; }
};
/// `told`: to all that talk over it what the job's operations are.
LinkRoom room_of(const CollectiveJob& job, uint32_t link, bool told) {
  LinkRoom room;
  if (!told) return room;
  uint64_t messages = 0;
  for (size_t o = 0; o < job.operations.size() && messages < room.send_queue; ++o) {
    messages += job.messages(o, link);
  }
  room.send_queue = static_cast<uint32_t>(std::clamp<uint64_t>(messages, 1, room.send_queue));
  room.credits = std::min(room.send_queue + 1, room.credits);
  return room;
}

/// Of the job's data on a link; credits are not held back.
std::unique_ptr<QpControl> data_control(const Config& config, const JobConfig& job,
                                        const CollectiveSetup& setup, const CollectiveLink& link,
                                        uint32_t mtu) {
  const NodeConfig& real = node_of(config, job, setup, link.real);
  const auto port = std::ranges::find_if(config.ports, [&](const PortConfig& p) {
    return p.node == real.index && p.nic == link.real_nic;
  });
  if (port == config.ports.end()) return nullptr;
  return make_qp_control(config, setup.topology, job.sender,
                         node_of(config, job, setup, link.far).index, link.far_nic, *port, mtu,
                         link.real_sends);
}

/// Of the queue pair that sends a link's data.
std::string name_of(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                    const CollectiveLink& link) {
  const auto end = [&](uint32_t rank) {
    const std::string& node = node_of(config, job, setup, rank).name;
    if (setup.communicator.gpus == 1) return node;
    return node + "/gpu" + std::to_string(setup.communicator.gpu_of(rank));
  };
  const uint32_t from = link.real_sends ? link.real : link.far;
  const uint32_t to = link.real_sends ? link.far : link.real;
  return job.name + " " + end(from) + " -> " + end(to) + " " + std::to_string(link.channel) +
         (link.index == 0 ? "" : " send/recv");
}

/// The memory that a link's receiver needs.
uint64_t buffer_bytes(const CollectiveLink& link, uint32_t slots) {
  return std::max<uint64_t>(uint64_t{slots} * link.slot_bytes, 1);
}

}  // namespace

std::vector<std::string> controlled_names(const Config& config, const JobConfig& job) {
  if (job.sender.control == kNoControl) return {};
  const auto setup = build_collective(config, job, true);
  if (!setup) return {};
  std::vector<std::string> names;
  for (const CollectiveLink& link : (*setup)->job.links) {
    if (link.among_real() && !link.real_sends) continue;  // its other end sends
    names.push_back(name_of(config, job, **setup, link));
  }
  return names;
}

Result<std::unique_ptr<EnvironmentHost>> EnvironmentHost::create(const Config& config,
                                                                 const JobConfig& job,
                                                                 const CollectiveSetup& setup,
                                                                 ShardControl& control,
                                                                 bool real_time) {
  std::unique_ptr<EnvironmentHost> host(
      new EnvironmentHost(config, job, setup, control, real_time));
  if (auto allocated = host->allocate(); !allocated) return fail(allocated.error().text);
  return host;
}

uint32_t EnvironmentHost::slots(uint32_t link) const {
  const CollectiveJob& job = setup_.job;
  return job.exact ? CollectiveEnvironment::exact_slots(job.ranks()) : job.links[link].slots;
}

Result<void> EnvironmentHost::allocate() {
  const CollectiveJob& job = setup_.job;
  std::vector<const uint8_t*> received(ends_.size(), nullptr);
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    const CollectiveLink& link = job.links[l];
    if (link.among_real()) continue;
    const LinkRoom room = room_of(job, l, is_told());
    const NodeId node = node_of(config_, job_, setup_, link.far).index;
    auto region =
        link.real_sends
            ? control_.add_region(node, buffer_bytes(link, slots(l)), kAccessRemoteWrite,
                                  job.exact ? RegionKind::kBacked : RegionKind::kDiscard)
            : control_.add_region(node, room.fifo_bytes(), kAccessRemoteWrite, RegionKind::kBacked);
    if (!region) return fail("job \"" + job_.name + "\": " + region.error().text);
    ends_[l].region = *region;
    if (!link.real_sends) continue;
    ends_[l].staging.reset(room.new_staging());
    received[l] = region->bytes;
  }
  switch (job_.operations) {
    case OperationsMode::kTold:
      environment_ = std::make_unique<CollectiveEnvironment>(job, progress_, received);
      return {};
    case OperationsMode::kInferred:
      if (is_p2p(job_.collective)) {
        source_ = std::make_unique<InferredPairs>(config_, job_, setup_.topology, job);
      } else {
        source_ = std::make_unique<InferredOperations>(config_, job_, setup_.topology, job);
      }
      break;
    case OperationsMode::kFed: {
      auto fed = std::make_unique<FedOperations>(config_, job_, setup_.topology, job);
      feed_ = fed.get();
      source_ = std::move(fed);
      break;
    }
  }
  reactive_ = std::make_unique<ReactiveEnvironment>(job, progress_, source_->settings(), *source_);
  source_->attach(*reactive_, real_time_ ? &control_ : nullptr);
  return {};
}

LinkNearEnd EnvironmentHost::open(uint32_t link) {
  End& end = ends_[link];
  if (end.link.qpn == 0) {
    end.link = {control_.take_qpn(), end.region.va, end.region.rkey};
    if (end.link.qpn != 0) qpns_.push_back(end.link.qpn);
  }
  return end.link;
}

void EnvironmentHost::connect(uint32_t link, const LinkFarEnd& far) {
  const CollectiveLink& l = setup_.job.links[link];
  End& end = ends_[link];
  const bool sends = !l.real_sends;
  QpConfig config =
      nccl_qp(config_, node_of(config_, job_, setup_, l.far), l.far_nic,
              node_of(config_, job_, setup_, l.real), l.real_nic, end.link.qpn, far, !sends);
  config.send_queue = room_of(setup_.job, link, is_told()).send_queue;
  const bool contents = sends || setup_.job.exact;  // the FIFO is always read
  const auto prepare = [&](Qp& qp) {
    if (sends) {
      (reactive_ ? reactive_->sender(link) : environment_->sender(link))
          .connect({&qp, end.region.bytes});
    } else {
      (reactive_ ? reactive_->receiver(link) : environment_->receiver(link))
          .connect({&qp, far.fifo_va, far.fifo_rkey, end.region.va, end.region.rkey, slots(link),
                    l.slot_bytes, l.real, end.staging.get()});
    }
  };
  auto control = sends ? data_control(config_, job_, setup_, l, far.mtu) : nullptr;
  if (control != nullptr) {
    controlled_.push_back({name_of(config_, job_, setup_, l), control.get()});
  }
  control_.add_qp(config, reactive_ ? reactive_->endpoint(link) : environment_->endpoint(link),
                  contents, prepare, std::move(control));
  ++connected_;
}

void EnvironmentHost::record() {
  if (reactive_) return;
  const CollectiveJob& job = setup_.job;
  moments_.resize(job.links.size());
  for (uint32_t l = 0; l < moments_.size(); ++l) {
    uint64_t messages = 0;
    for (size_t o = 0; o < job.operations.size(); ++o) messages += job.messages(o, l);
    moments_[l].resize(messages);
  }
  environment_->record(moments_);
}

void EnvironmentHost::start() {
  if (reactive_) {
    control_.wake(*reactive_, ReactiveEnvironment::kStart);
  } else {
    control_.wake(*environment_, CollectiveEnvironment::kStart);
  }
}

void EnvironmentHost::close() {
  for (const Qpn qpn : qpns_) control_.remove_qp(qpn);
  qpns_.clear();
}

bool RanksHost::is_own(uint32_t link) const {
  const uint32_t real = setup_.job.real_index[setup_.job.links[link].real];
  return real >= own_.first && real < own_.end;
}

Result<std::unique_ptr<RanksHost>> RanksHost::create(const Config& config, const JobConfig& job,
                                                     const CollectiveSetup& setup, uint32_t node,
                                                     ShardControl& control) {
  const CollectiveRanks::Own own{node * setup.communicator.gpus,
                                 (node + 1) * setup.communicator.gpus};
  std::unique_ptr<RanksHost> host(new RanksHost(config, job, setup, own, control));
  if (auto allocated = host->allocate(); !allocated) return fail(allocated.error().text);
  return host;
}

Result<void> RanksHost::allocate() {
  const CollectiveJob& out = setup_.job;
  CollectiveRanks::Memory memory;
  memory.input_seed = splitmix64(config_.seed);  // the reference node's own, not the emulator's
  uint64_t largest = 0;
  for (const uint64_t bytes : job_.sizes) largest = std::max(largest, bytes);
  if (out.exact) data_.resize(largest / sizeof(float));
  memory.data = data_;
  const RegionKind contents = out.exact ? RegionKind::kBacked : RegionKind::kDiscard;
  memory.received.resize(ends_.size());
  memory.sent.resize(ends_.size());
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!is_own(l)) continue;
    const CollectiveLink& link = out.links[l];
    End& end = ends_[l];
    const NodeId node = node_of(config_, job_, setup_, link.real).index;
    const LinkRoom room = room_of(out, l, is_told());
    auto region = link.real_sends ? control_.add_region(node, room.fifo_bytes(), kAccessRemoteWrite,
                                                        RegionKind::kBacked)
                                  : control_.add_region(node, buffer_bytes(link, link.slots),
                                                        kAccessRemoteWrite, contents);
    if (!region) return fail("job \"" + job_.name + "\": " + region.error().text);
    end.region = *region;
    if (!link.real_sends) end.staging.reset(room.new_staging());
    if (out.exact && link.real_sends) {
      end.sent.resize(CollectiveRanks::sent_slots(link) * link.slot_bytes);
    }
    memory.received[l] = link.real_sends ? nullptr : region->bytes;
    memory.sent[l] = end.sent.data();
    end.link = {control_.take_qpn(), region->va, region->rkey};
    if (end.link.qpn == 0) {
      return fail("job \"" + job_.name + "\": no queue pair is left: it has " +
                  std::to_string(out.links.size()) +
                  " connections to real ranks, and limits.queue_pairs is " +
                  std::to_string(config_.limits.queue_pairs));
    }
  }
  ranks_ = std::make_unique<CollectiveRanks>(out, own_, progress_, memory);
  return {};
}

Result<void> RanksHost::connect(EnvironmentHost& environment,
                                const std::vector<std::unique_ptr<RanksHost>>& all) {
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!is_own(l)) continue;
    const CollectiveLink& link = setup_.job.links[l];
    if (link.among_real()) {
      for (const auto& other : all) {
        if (other->is_own(link.twin)) connect(l, other->ends_[link.twin].link);
      }
      continue;
    }
    const LinkNearEnd theirs = environment.open(l);
    if (theirs.qpn == 0) {
      return fail("job \"" + job_.name + "\": no queue pair is left: it has " +
                  std::to_string(setup_.job.links.size()) +
                  " connections to real ranks, and limits.queue_pairs is " +
                  std::to_string(config_.limits.queue_pairs));
    }
    connect(l, theirs);
    LinkFarEnd us;
    us.qpn = ends_[l].link.qpn;
    us.mtu = config_.fabric.mtu;
    us.traffic_class = job_.sender.traffic_class;
    if (link.real_sends) {
      us.fifo_va = ends_[l].region.va;
      us.fifo_rkey = ends_[l].region.rkey;
    }
    environment.connect(l, us);
  }
  return {};
}

void RanksHost::connect(uint32_t l, const LinkNearEnd& theirs) {
  const CollectiveLink& link = setup_.job.links[l];
  End& end = ends_[l];
  const NodeConfig& far_node = node_of(config_, job_, setup_, link.far);
  LinkFarEnd far;
  far.qpn = theirs.qpn;
  far.mtu = config_.fabric.mtu;
  far.traffic_class = job_.sender.traffic_class;
  QpConfig qp_config = nccl_qp(config_, node_of(config_, job_, setup_, link.real), link.real_nic,
                               far_node, link.far_nic, end.link.qpn, far, !link.real_sends);
  qp_config.send_queue = room_of(setup_.job, l, is_told()).send_queue;
  qp_config.addressing.dst_mac = far_node.nics[link.far_nic].mac;
  const auto prepare = [&](Qp& qp) {
    if (link.real_sends) {
      ranks_->sender(l).connect({&qp, end.region.bytes});
    } else {
      ranks_->receiver(l).connect({&qp, theirs.va, theirs.rkey, end.region.va, end.region.rkey,
                                   link.slots, link.slot_bytes, link.far, end.staging.get()});
    }
  };
  auto steered = link.real_sends ? data_control(config_, job_, setup_, link, far.mtu) : nullptr;
  if (steered != nullptr) {
    controlled_.push_back({name_of(config_, job_, setup_, link), steered.get()});
  }
  control_.add_qp(qp_config, ranks_->endpoint(l), link.real_sends || setup_.job.exact, prepare,
                  std::move(steered));
}

}  // namespace understudy
