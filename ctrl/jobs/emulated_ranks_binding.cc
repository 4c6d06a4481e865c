#include "ctrl/jobs/emulated_ranks_binding.h"

#include <algorithm>

#include "ctrl/jobs/operations/inferred_operations.h"
#include "ctrl/jobs/operations/inferred_pairs.h"
#include "dataplane/base/assert.h"
#include "dataplane/base/try.h"
#include "dataplane/nccl/unplanned_connection.h"

namespace understudy {
namespace {

/// The longest message that there is (NCCL_MAX_NET_SIZE).
constexpr uint32_t kAnyMessage = UnplannedConnection::kCapacity;

}  // namespace

Result<std::unique_ptr<EmulatedRanksBinding>> EmulatedRanksBinding::create(
    const Config& config, const JobConfig& job, JobState& state, ShardControl& control,
    bool real_time, const CtsLayout& layout) {
  std::unique_ptr<EmulatedRanksBinding> host(
      new EmulatedRanksBinding(config, job, state, control, real_time, layout));
  TRY(host->allocate());
  return host;
}

uint32_t EmulatedRanksBinding::slots(uint32_t link) const {
  const CollectiveJob& job = setup_.job;
  return std::max(job.links[link].kept, job.links[link].slots);
}

/// That a real rank writes to. In real time its messages may be others than we were told.
uint64_t EmulatedRanksBinding::received_bytes(uint32_t link) const {
  const uint64_t told = buffer_bytes(setup_.job.links[link], slots(link));
  return real_time_ && !setup_.job.exact && told < kAnyMessage ? kAnyMessage : told;
}

bool EmulatedRanksBinding::is_needed(uint32_t link) const {
  return job_.operations != OperationsMode::kTold || setup_.job.operations.empty() ||
         setup_.job.messages(0, link) > 0;
}

std::optional<uint32_t> EmulatedRanksBinding::missing_link() const {
  if (joined_ == 0 || all_joined() || job_.operations != OperationsMode::kTold) return std::nullopt;
  uint32_t link = 0;
  while (setup_.job.links[link].among_real() || !is_needed(link) || ends_[link].joined) ++link;
  return link;
}

Result<void> EmulatedRanksBinding::allocate() {
  const CollectiveJob& job = setup_.job;
  std::vector<const uint8_t*> received(ends_.size(), nullptr);
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    const CollectiveConnection& link = job.links[l];
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
      planned_ = std::make_unique<EmulatedRanks>(job, state_, progress_, received);
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
  OnlineEmulatedRanks::Settings settings = source_->settings();
  if (!job.inner.empty()) settings.carrier = state_.carrier.get();
  online_ = std::make_unique<OnlineEmulatedRanks>(job, progress_, std::move(settings), *source_);
  source_->attach(*online_, real_time_ ? &control_ : nullptr);
  return {};
}

void EmulatedRanksBinding::wake(uint64_t cookie) {
  ASSERT_INVARIANT((planned_ != nullptr) != (online_ != nullptr));
  if (online_) {
    control_.wake(*online_, cookie);
  } else {
    control_.wake(*planned_, cookie);
  }
}

void EmulatedRanksBinding::look() {
  wake(planned_ != nullptr ? EmulatedRanks::kLook : OnlineEmulatedRanks::kLook);
}

LinkNearEnd EmulatedRanksBinding::open(uint32_t link, uint32_t queue_pairs,
                                       const FailoverCounts& further) {
  End& end = ends_[link];
  const CollectiveConnection& l = setup_.job.links[link];
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
  if (further.probing == 0 || end.link.qpns.empty()) return end.link;
  const NodeId node = node_of(config_, job_, setup_, l.far).index;
  if (!take_failover(control_, node, !l.real_sends, further, end.link.failover, end.records)) {
    for (const Qpn taken : end.link.qpns) control_.return_qpn(taken);
    end.link.qpns.clear();
  }
  return end.link;
}

void EmulatedRanksBinding::connect(uint32_t link, const LinkFarEnd& far) {
  const CollectiveConnection& l = setup_.job.links[link];
  End& end = ends_[link];
  const bool sends = !l.real_sends;
  const bool contents = sends || setup_.job.exact;  // the FIFO is always read
  end.connected = true;
  const bool any_size = far.checked && received_bytes(link) == kAnyMessage;
  NcclQps qps{{}, far.split, far.parts, far.devices.far_of};
  if (end.link.failover.exists()) end.failover = std::make_unique<PortFailover>();
  for (size_t q = 0; q < end.link.qpns.size(); ++q) {
    const uint32_t near_nic = far.devices.near_nic(q, l.far_nic);
    const uint32_t real_nic = far.devices.far_nic(q, l.real_nic);
    QpConfig config =
        link_queue_pair(config_, job_.nccl, {&node_of(config_, job_, setup_, l.far), near_nic},
                        {&node_of(config_, job_, setup_, l.real), real_nic}, end.link.qpns[q],
                        far.qpns[q], far, !sends);
    if (end.failover == nullptr) {
      config.send_queue = room_of(setup_.job, link, layout_, is_told()).send_queue;
    }
    const bool last = q + 1 == end.link.qpns.size();
    const auto prepare = [&](Qp& qp) {
      qps.all.push_back(&qp);
      if (!last) return;  // it is not looked at before join()
      if (sends) {
        connections().sender(link).connect(
            {.qps = qps,
             .layout = layout_,
             .fifo = end.region.bytes,
             .collective = l.index == 0,
             .buffers = buffers_of(setup_),
             .reflection = reflection(l),
             .several_receives = far.fifo_va != 0 && l.index != 0,
             .sizes_va = far.fifo_va,
             .sizes_rkey = far.fifo_rkey,
             .violations = far.checked ? &progress_.violations : nullptr,
             .registered = far.checked ? &progress_.registered : nullptr,
             .failover = end.failover.get()});
      } else {
        connections().receiver(link).connect({.qps = qps,
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
                                              .reflection = reflection(l),
                                              .failover = end.failover.get(),
                                              .records = end.records.bytes});
      }
    };
    auto control =
        sends ? data_control(config_, job_, setup_, l, real_nic, near_nic, far.mtu) : nullptr;
    if (control != nullptr) {
      controlled_.push_back(
          {queue_pair_name(config_, job_, setup_, l, q), control.get(), config.qpn});
    }
    control_.add_qp(config, connections().endpoint(link), contents, prepare, std::move(control),
                    reflection(l) != nullptr);
  }
  if (end.failover != nullptr) connect_failover(link, far, std::move(qps.all));
}

void EmulatedRanksBinding::connect_failover(uint32_t link, const LinkFarEnd& far,
                                            std::vector<Qp*> data) {
  const CollectiveConnection& l = setup_.job.links[link];
  End& end = ends_[link];
  add_failover(control_, failover_link(config_, job_, setup_, l, far, false, *failover_),
               end.link.failover, std::move(data), connections().endpoint(link), progress_.failover,
               *end.failover);
}

Result<EndpointReady> EmulatedRanksBinding::serve(uint32_t link, const EndpointRequest& request) {
  const NcclLinkRequest& wanted = *request.nccl;
  FailoverCounts further;
  if (wanted.failover) further = {wanted.failover->probing, wanted.failover->recovery};
  const LinkNearEnd ours = open(link, wanted.queue_pairs, further);
  if (ours.qpns.size() != wanted.queue_pairs) {
    return fail(ends_[link].closed ? "the connection was made and ended before"
                                   : "no queue pair is left on this port: limits.queue_pairs is " +
                                         std::to_string(config_.limits.queue_pairs));
  }
  if (ends_[link].connected) return fail("the connection has been made already");
  if (!request.reserve) {
    const CollectiveConnection& l = setup_.job.links[link];
    connect(link, told_far_end(node_of(config_, job_, setup_, l.far),
                               node_of(config_, job_, setup_, l.real), request));
  }
  return told_near_end(ours, setup_.job.links[link].real_sends);
}

Reflection* EmulatedRanksBinding::reflection(const CollectiveConnection& link) {
  if (!job_.join || !online_ || setup_.job.exact || link.index != 0) return nullptr;
  auto& made = reflections_[link.channel];
  if (made == nullptr) made = std::make_unique<Reflection>();
  return made.get();
}

void EmulatedRanksBinding::join(uint32_t link) {
  if (std::exchange(ends_[link].joined, true)) return;
  if (is_needed(link)) ++joined_;
  wake(EmulatedConnections::joins(link));
}

void EmulatedRanksBinding::close(uint32_t link) {
  End& end = ends_[link];
  std::vector<Qpn> qpns = std::exchange(end.link.qpns, {});
  const FailoverEnd further = std::exchange(end.link.failover, {});
  qpns.insert(qpns.end(), further.probing.begin(), further.probing.end());
  qpns.insert(qpns.end(), further.recovery.begin(), further.recovery.end());
  if (!end.connected) {
    for (const Qpn qpn : qpns) control_.return_qpn(qpn);
    return;
  }
  if (std::exchange(end.closed, true)) return;
  wake(EmulatedConnections::leaves(link));
  if (end.failover != nullptr) control_.wake(*end.failover, PortFailover::kStop);
  for (const Qpn qpn : qpns) {
    std::erase_if(controlled_, [&](const ControlledPair& pair) { return pair.qpn == qpn; });
    control_.remove_qp(qpn);
  }
}

void EmulatedRanksBinding::record() {
  if (online_) return;
  const CollectiveJob& job = setup_.job;
  moments_.resize(job.links.size());
  for (uint32_t l = 0; l < moments_.size(); ++l) {
    uint64_t messages = 0;
    for (size_t o = 0; o < job.operations.size(); ++o) messages += job.messages(o, l);
    moments_[l].resize(messages);
  }
  planned_->record(moments_);
}

void EmulatedRanksBinding::start() {
  wake(online_ ? OnlineEmulatedRanks::kStart : EmulatedRanks::kStart);
}

void EmulatedRanksBinding::close() {
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!ends_[l].link.qpns.empty()) close(l);
  }
}

void EmulatedRanksBinding::forget(std::function<void()> then) {
  close();
  wake(online_ ? OnlineEmulatedRanks::kForget : EmulatedRanks::kForget);
  std::vector<const Endpoint*> endpoints;
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    endpoints.push_back(&connections().endpoint(l));
    if (ends_[l].failover != nullptr) endpoints.push_back(ends_[l].failover.get());
  }
  if (online_) {
    endpoints.push_back(online_.get());
  } else {
    endpoints.push_back(planned_.get());
  }
  control_.forget(std::move(endpoints), std::move(then));
  give_up();
}

void EmulatedRanksBinding::give_up() {
  for (uint32_t l = 0; l < ends_.size(); ++l) {
    if (!setup_.job.links[l].among_real()) control_.remove_region(ends_[l].region.index);
    if (ends_[l].records.bytes != nullptr) control_.remove_region(ends_[l].records.index);
  }
}

}  // namespace understudy
