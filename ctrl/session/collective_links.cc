#include "ctrl/session/collective_links.h"

#include <algorithm>
#include <numeric>

#include "collective_model/p2p_rounds.h"
#include "ctrl/build/qp_control.h"
#include "ctrl/config/merged_nics.h"
#include "ctrl/session/inferred_operations.h"
#include "ctrl/session/inferred_pairs.h"
#include "ctrl/session/nccl_queue_pair.h"
#include "dataplane/node/unplanned_connection.h"

namespace understudy {
namespace {

/// Of one end of a link; `far` is the other one.
QpConfig link_queue_pair(const Config& config, NcclVersion version, const NcclNic& from,
                         const NcclNic& to, Qpn qpn, Qpn remote, const LinkFarEnd& far,
                         bool credits) {
  QpConfig qp =
      nccl_queue_pair(config, version, from, to, qpn, remote, far.mtu, far.traffic_class, credits);
  qp.rq_psn = far.psn;
  qp.sq_psn = far.expects;
  return qp;
}

const NodeConfig& node_of(const Config& config, const JobConfig& job, const CollectiveSetup& setup,
                          uint32_t rank) {
  return config.nodes[job.ranks[setup.communicator.node_of(rank)]];
}

NcclBuffers buffers_of(const CollectiveSetup& setup) {
  const BufferSizes& b = setup.communicator.buffers;
  return {.simple = b.simple, .ll = b.ll, .ll128 = b.ll128};
}

/// What the ends of a link need for its messages, as far as that is less than NCCL has. There may
/// be thousands of links with one message each.
struct LinkRoom {
  uint32_t send_queue = QpConfig().send_queue;
  CtsLayout layout;
  uint32_t credits = layout.slots;  ///< of the FIFO, one more than are granted

  uint64_t fifo_bytes() const { return uint64_t{credits} * layout.stride(); }
  uint8_t* new_staging() const { return new uint8_t[size_t{credits} * layout.entry_bytes]; }
};
/// `told`: to all that talk over it what the job's operations are.
LinkRoom room_of(const CollectiveJob& job, uint32_t link, const CtsLayout& layout, bool told) {
  LinkRoom room{.layout = layout};
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
                                        uint32_t real_nic, uint32_t far_nic, uint32_t mtu) {
  const NodeConfig& real = node_of(config, job, setup, link.real);
  const auto port = std::ranges::find_if(
      config.ports, [&](const PortConfig& p) { return p.node == real.index && p.nic == real_nic; });
  if (port == config.ports.end()) return nullptr;
  return make_qp_control(config, setup.topology, job.sender,
                         node_of(config, job, setup, link.far).index, far_nic, *port, mtu,
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

/// Of a link's queue pair number `q`.
std::string queue_pair_name(std::string link, size_t q) {
  return q == 0 ? link : std::move(link) + ", queue pair " + std::to_string(q);
}

/// The longest message that there is (NCCL_MAX_NET_SIZE).
constexpr uint32_t kAnyMessage = UnplannedConnection::kCapacity;

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

Result<std::unique_ptr<EnvironmentHost>> EnvironmentHost::create(
    const Config& config, const JobConfig& job, const CollectiveSetup& setup, ShardControl& control,
    bool real_time, const CtsLayout& layout) {
  std::unique_ptr<EnvironmentHost> host(
      new EnvironmentHost(config, job, setup, control, real_time, layout));
  if (auto allocated = host->allocate(); !allocated) return fail(allocated.error().text);
  return host;
}

uint32_t EnvironmentHost::slots(uint32_t link) const {
  const CollectiveJob& job = setup_.job;
  return job.exact ? CollectiveEnvironment::exact_slots(job.ranks()) : job.links[link].slots;
}

/// That a real rank writes to. In real time its messages may be others than we were told.
uint64_t EnvironmentHost::received_bytes(uint32_t link) const {
  const uint64_t told = buffer_bytes(setup_.job.links[link], slots(link));
  return real_time_ && !setup_.job.exact && told < kAnyMessage ? kAnyMessage : told;
}

bool EnvironmentHost::is_needed(uint32_t link) const {
  return job_.operations != OperationsMode::kTold || setup_.job.operations.empty() ||
         setup_.job.messages(0, link) > 0;
}

Result<void> EnvironmentHost::allocate() {
  const CollectiveJob& job = setup_.job;
  std::vector<const uint8_t*> received(ends_.size(), nullptr);
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    const CollectiveLink& link = job.links[l];
    if (link.among_real()) continue;
    if (is_needed(l)) ++needed_;
    const LinkRoom room = room_of(job, l, layout_, is_told());
    const NodeId node = node_of(config_, job_, setup_, link.far).index;
    auto region =
        link.real_sends
            ? control_.add_region(node, received_bytes(l), kAccessRemoteWrite,
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

std::optional<uint32_t> EnvironmentHost::find(uint32_t real, uint32_t emulated, uint32_t channel,
                                              uint8_t index, bool real_sends) const {
  if (index == 1) {
    const auto all = p2p_channels_between(setup_.communicator, real_sends ? real : emulated,
                                          real_sends ? emulated : real);
    if (channel >= all.size()) return std::nullopt;
    channel = all[channel];
  }
  const std::vector<CollectiveLink>& links = setup_.job.links;
  for (uint32_t l = 0; l < links.size(); ++l) {
    const CollectiveLink& link = links[l];
    if (link.among_real() || link.real != real || link.far != emulated) continue;
    if (link.channel == channel && link.index == index && link.real_sends == real_sends) return l;
  }
  return std::nullopt;
}

NcclSender& EnvironmentHost::sender(uint32_t link) {
  return reactive_ ? reactive_->sender(link) : environment_->sender(link);
}

NcclReceiver& EnvironmentHost::receiver(uint32_t link) {
  return reactive_ ? reactive_->receiver(link) : environment_->receiver(link);
}

void EnvironmentHost::wake(uint64_t told, uint64_t reactive) {
  if (reactive_) {
    control_.wake(*reactive_, reactive);
  } else {
    control_.wake(*environment_, told);
  }
}

LinkNearEnd EnvironmentHost::open(uint32_t link, uint32_t queue_pairs) {
  End& end = ends_[link];
  end.link.va = end.region.va;
  end.link.rkey = end.region.rkey;
  if (end.closed || !end.link.qpns.empty()) return end.link;
  for (uint32_t q = 0; q < queue_pairs; ++q) {
    const Qpn qpn = control_.take_qpn();
    if (qpn != 0) {
      end.link.qpns.push_back(qpn);
      continue;
    }
    for (const Qpn taken : end.link.qpns) control_.return_qpn(taken);
    end.link.qpns.clear();
    break;
  }
  return end.link;
}

void EnvironmentHost::connect(uint32_t link, const LinkFarEnd& far) {
  const CollectiveLink& l = setup_.job.links[link];
  End& end = ends_[link];
  const bool sends = !l.real_sends;
  const bool contents = sends || setup_.job.exact;  // the FIFO is always read
  end.connected = true;
  const bool any_size = far.checked && received_bytes(link) == kAnyMessage;
  NcclQps qps{{}, far.split, far.parts, far.devices.far_of};
  for (size_t q = 0; q < end.link.qpns.size(); ++q) {
    const uint32_t near_nic = far.devices.near_nic(q, l.far_nic);
    const uint32_t real_nic = far.devices.far_nic(q, l.real_nic);
    QpConfig config =
        link_queue_pair(config_, job_.nccl, {&node_of(config_, job_, setup_, l.far), near_nic},
                        {&node_of(config_, job_, setup_, l.real), real_nic}, end.link.qpns[q],
                        far.qpns[q], far, !sends);
    config.send_queue = room_of(setup_.job, link, layout_, is_told()).send_queue;
    const bool last = q + 1 == end.link.qpns.size();
    const auto prepare = [&](Qp& qp) {
      qps.all.push_back(&qp);
      if (!last) return;  // it is not looked at before join()
      if (sends) {
        sender(link).connect({.qps = qps,
                              .layout = layout_,
                              .fifo = end.region.bytes,
                              .collective = l.index == 0,
                              .buffers = buffers_of(setup_),
                              .reflection = reflection(l),
                              .several_receives = far.fifo_va != 0 && l.index != 0,
                              .sizes_va = far.fifo_va,
                              .sizes_rkey = far.fifo_rkey,
                              .violations = far.checked ? &progress_.violations : nullptr,
                              .registered = far.checked ? &progress_.registered : nullptr});
      } else {
        receiver(link).connect({.qps = qps,
                                .layout = layout_,
                                .fifo_va = far.fifo_va,
                                .fifo_rkey = far.fifo_rkey,
                                .devices = far.devices.near_count(),
                                .buffer_va = end.region.va,
                                .buffer_rkey = end.region.rkey,
                                .slots = any_size ? 1 : slots(link),
                                .slot_bytes = any_size ? kAnyMessage : l.slot_bytes,
                                .sender_rank = far.tag.value_or(l.real),
                                .staging = end.staging.get(),
                                .reflection = reflection(l)});
      }
    };
    auto control =
        sends ? data_control(config_, job_, setup_, l, real_nic, near_nic, far.mtu) : nullptr;
    if (control != nullptr) {
      controlled_.push_back({queue_pair_name(name_of(config_, job_, setup_, l), q), control.get()});
    }
    control_.add_qp(config, reactive_ ? reactive_->endpoint(link) : environment_->endpoint(link),
                    contents, prepare, std::move(control), reflection(l) != nullptr);
  }
}

Result<EndpointReady> EnvironmentHost::serve(uint32_t link, const EndpointRequest& request) {
  const NcclLinkRequest& wanted = *request.nccl;
  const LinkNearEnd ours = open(link, wanted.queue_pairs);
  if (ours.qpns.size() != wanted.queue_pairs) {
    return fail(ends_[link].closed ? "the connection was made and ended before"
                                   : "no queue pair is left on this port: limits.queue_pairs is " +
                                         std::to_string(config_.limits.queue_pairs));
  }
  if (ends_[link].connected) return fail("the connection has been made already");
  if (!request.reserve) {
    LinkFarEnd far;
    far.qpns = wanted.remote_qpns;
    far.split = wanted.split;
    far.parts = wanted.parts;
    const CollectiveLink& l = setup_.job.links[link];
    for (const IpAddress& local : wanted.local) {
      far.devices.near.push_back(nic_with(node_of(config_, job_, setup_, l.far), local));
    }
    for (size_t d = 0; d < wanted.devices.size(); ++d) {
      const auto& [gid, rkey] = wanted.devices[d];
      far.devices.far.push_back(nic_with(node_of(config_, job_, setup_, l.real), gid));
      far.fifo_rkey[d] = rkey;
    }
    far.devices.far_of = wanted.remote_device;
    far.fifo_va = wanted.fifo_address;
    far.tag = wanted.connector.sender;
    far.checked = true;
    far.mtu = request.mtu;
    far.traffic_class = request.sender.traffic_class;
    connect(link, far);
  }
  return EndpointReady{ours.qpns.front(), Psn(0), ours.va, ours.rkey, ours.qpns};
}

Reflection* EnvironmentHost::reflection(const CollectiveLink& link) {
  if (!job_.join || !reactive_ || setup_.job.exact || link.index != 0) return nullptr;
  auto& made = reflections_[link.channel];
  if (made == nullptr) made = std::make_unique<Reflection>();
  return made.get();
}

void EnvironmentHost::join(uint32_t link) {
  if (std::exchange(ends_[link].joined, true)) return;
  if (is_needed(link)) ++joined_;
  wake(CollectiveEnvironment::joins(link), ReactiveEnvironment::joins(link));
}

void EnvironmentHost::close(uint32_t link) {
  End& end = ends_[link];
  const std::vector<Qpn> qpns = std::exchange(end.link.qpns, {});
  if (!end.connected) {
    for (const Qpn qpn : qpns) control_.return_qpn(qpn);
    return;
  }
  if (std::exchange(end.closed, true)) return;
  wake(CollectiveEnvironment::leaves(link), ReactiveEnvironment::leaves(link));
  for (const Qpn qpn : qpns) control_.remove_qp(qpn);
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

void EnvironmentHost::start() { wake(CollectiveEnvironment::kStart, ReactiveEnvironment::kStart); }

void EnvironmentHost::close() {
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!ends_[l].link.qpns.empty()) close(l);
  }
}

void EnvironmentHost::give_up() {
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!setup_.job.links[l].among_real()) control_.remove_region(ends_[l].region.index);
  }
}

bool RanksHost::is_own(uint32_t link) const {
  const uint32_t real = setup_.job.real_index[setup_.job.links[link].real];
  return real >= own_.first && real < own_.end;
}

Result<std::unique_ptr<RanksHost>> RanksHost::create(const Config& config, const JobConfig& job,
                                                     const CollectiveSetup& setup, uint32_t node,
                                                     ShardControl& control, const NcclWire& wire) {
  const CollectiveRanks::Own own{node * setup.communicator.gpus,
                                 (node + 1) * setup.communicator.gpus};
  std::unique_ptr<RanksHost> host(new RanksHost(config, job, setup, own, control, wire));
  if (auto allocated = host->allocate(); !allocated) return fail(allocated.error().text);
  return host;
}

/// That the far end writes to: of collectives as NCCL has it, whose addresses tell the steps.
uint64_t RanksHost::received_bytes(uint32_t link) const {
  const CollectiveLink& l = setup_.job.links[link];
  const NcclBuffers buffers = buffers_of(setup_);
  if (l.index != 0) return buffer_bytes(l, l.slots);
  return setup_.job.exact ? buffers.simple : NcclReceiver::stepped_bytes(buffers);
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
    const LinkRoom room = room_of(out, l, layout_, is_told());
    auto region =
        link.real_sends
            ? control_.add_region(node, room.fifo_bytes(), kAccessRemoteWrite, RegionKind::kBacked)
            : control_.add_region(node, received_bytes(l), kAccessRemoteWrite, contents);
    if (!region) return fail("job \"" + job_.name + "\": " + region.error().text);
    end.region = *region;
    if (!link.real_sends) end.staging.reset(room.new_staging());
    if (out.exact && link.real_sends) {
      end.sent.resize(CollectiveRanks::sent_slots(link) * link.slot_bytes);
    }
    memory.received[l] = link.real_sends ? nullptr : region->bytes;
    memory.sent[l] = end.sent.data();
    end.link = {{}, region->va, region->rkey};
    while (end.link.qpns.size() < wire_.queue_pairs * parts(l)) {
      end.link.qpns.push_back(control_.take_qpn());
      if (end.link.qpns.back() == 0) return no_queue_pair();
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
    if (auto made = connect(l, environment); !made) return made;
    environment.join(l);
  }
  return {};
}

tl::unexpected<Error> RanksHost::no_queue_pair() const {
  return fail("job \"" + job_.name + "\": no queue pair is left: it has " +
              std::to_string(setup_.job.links.size()) +
              " connections to real ranks, and limits.queue_pairs is " +
              std::to_string(config_.limits.queue_pairs));
}

Result<void> RanksHost::connect(uint32_t l, EnvironmentHost& environment) {
  const LinkNearEnd theirs = environment.open(l, wire_.queue_pairs * parts(l));
  if (theirs.qpns.empty()) return no_queue_pair();
  connect(l, theirs);
  LinkFarEnd us;
  us.qpns = ends_[l].link.qpns;
  us.split = wire_.split;
  us.parts = parts(l);
  const LinkDevices ours = devices(l);
  us.devices = {.near = ours.far, .far = ours.near};
  for (size_t q = 0; q < us.qpns.size(); ++q) {
    us.devices.far_of.push_back(static_cast<uint8_t>(q % ours.near.size()));
  }
  us.checked = true;
  us.mtu = config_.fabric.mtu;
  us.traffic_class = job_.sender.traffic_class;
  if (setup_.job.links[l].real_sends) {
    us.fifo_va = ends_[l].region.va;
    us.fifo_rkey = {ends_[l].region.rkey, ours.near.size()};
  }
  environment.connect(l, us);
  return {};
}

LinkDevices RanksHost::devices(uint32_t l) const {
  const CollectiveLink& link = setup_.job.links[l];
  const auto nics = [&](uint32_t rank, uint32_t first) {
    const NodeConfig& node = node_of(config_, job_, setup_, rank);
    std::vector<uint32_t> out(merged_nics(job_, node, first));
    std::iota(out.begin(), out.end(), first);
    return out;
  };
  LinkDevices devices{nics(link.real, link.real_nic), nics(link.far, link.far_nic), {}};
  for (size_t q = 0; q < ends_[l].link.qpns.size(); ++q) {
    devices.far_of.push_back(static_cast<uint8_t>(q % devices.far.size()));
  }
  return devices;
}

uint32_t RanksHost::parts(uint32_t l) const {
  const LinkDevices both = devices(l);
  return static_cast<uint32_t>(std::max(both.near.size(), both.far.size()));
}

void RanksHost::connect(uint32_t l, const LinkNearEnd& theirs) {
  const CollectiveLink& link = setup_.job.links[l];
  End& end = ends_[l];
  const NodeConfig& far_node = node_of(config_, job_, setup_, link.far);
  LinkFarEnd far;
  far.qpns = theirs.qpns;
  far.devices = devices(l);
  far.mtu = config_.fabric.mtu;
  far.traffic_class = job_.sender.traffic_class;
  NcclQps qps{{}, wire_.split, parts(l), far.devices.far_of};
  for (size_t q = 0; q < far.qpns.size(); ++q) {
    const uint32_t real_nic = far.devices.near_nic(q, link.real_nic);
    const uint32_t far_nic = far.devices.far_nic(q, link.far_nic);
    QpConfig qp_config =
        link_queue_pair(config_, job_.nccl, {&node_of(config_, job_, setup_, link.real), real_nic},
                        {&far_node, far_nic}, end.link.qpns[q], far.qpns[q], far, !link.real_sends);
    qp_config.send_queue = room_of(setup_.job, l, layout_, is_told()).send_queue;
    qp_config.addressing.dst_mac = far_node.nics[far_nic].mac;
    const auto prepare = [&](Qp& qp) {
      qps.all.push_back(&qp);
      if (qps.count() < far.qpns.size()) return;
      if (link.real_sends) {
        ranks_->sender(l).connect({.qps = qps, .layout = layout_, .fifo = end.region.bytes});
      } else {
        ranks_->receiver(l).connect({.qps = qps,
                                     .layout = layout_,
                                     .fifo_va = theirs.va,
                                     .fifo_rkey = {theirs.rkey, far.devices.far.size()},
                                     .devices = far.devices.near_count(),
                                     .buffer_va = end.region.va,
                                     .buffer_rkey = end.region.rkey,
                                     .slots = link.slots,
                                     .slot_bytes = link.slot_bytes,
                                     .stepped = link.index == 0,
                                     .buffers = buffers_of(setup_),
                                     .sender_rank = link.far,
                                     .staging = end.staging.get()});
      }
    };
    auto steered = link.real_sends
                       ? data_control(config_, job_, setup_, link, real_nic, far_nic, far.mtu)
                       : nullptr;
    if (steered != nullptr) {
      controlled_.push_back(
          {queue_pair_name(name_of(config_, job_, setup_, link), q), steered.get()});
    }
    control_.add_qp(qp_config, ranks_->endpoint(l), link.real_sends || setup_.job.exact, prepare,
                    std::move(steered));
  }
}

}  // namespace understudy
