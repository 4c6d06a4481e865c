#include "ctrl/session/ring_links.h"

#include <algorithm>

#include "ctrl/build/qp_control.h"

namespace understudy {
namespace {

/// NCCL's attributes (rocev2 A0): PSNs from 0, timeout 20, both retry counts 7, RNR timer 12.
QpConfig nccl_qp(const Config& config, const NodeConfig& from, const NodeConfig& to, unsigned nic,
                 Qpn qpn, const RingFarEnd& far, bool credits) {
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
  qp.addressing = addressing(from.nics[nic], to.nics[nic], far.traffic_class);
  qp.addressing.udp_src = udp_source_port(config, qpn, far.qpn);
  return qp;
}

/// Of the job's data between `emulated` and its real rank; credits are not held back.
std::unique_ptr<QpControl> data_control(const Config& config, const Topology* topology,
                                        const JobConfig& job, const NodeConfig& emulated,
                                        const NodeConfig& real, uint32_t mtu, bool from_real) {
  const auto port = std::ranges::find_if(
      config.ports, [&](const PortConfig& p) { return p.node == real.index && p.nic == job.nic; });
  if (port == config.ports.end()) return nullptr;
  return make_qp_control(config, topology, job.sender, emulated.index, *port, mtu, from_real);
}

/// Of the queue pair that sends the job's data out of the real rank, or into it.
std::string name_of(const Config& config, const JobConfig& job, bool from_real, uint32_t channel) {
  const auto ranks = static_cast<uint32_t>(job.ranks.size());
  const uint32_t real = real_rank(config, job);
  const uint32_t from = from_real ? real : (real + ranks - 1) % ranks;
  return job.name + " " + config.nodes[job.ranks[from]].name + " -> " +
         config.nodes[job.ranks[(from + 1) % ranks]].name + " " + std::to_string(channel);
}

}  // namespace

std::vector<std::string> controlled_names(const Config& config, const JobConfig& job) {
  std::vector<std::string> names;
  for (uint32_t c = 0; job.sender.control != kNoControl && c < job.channels; ++c) {
    for (const bool from_real : {false, true}) names.push_back(name_of(config, job, from_real, c));
  }
  return names;
}

Result<std::unique_ptr<RingEnvironmentHost>> RingEnvironmentHost::create(const Config& config,
                                                                         const JobConfig& job,
                                                                         const RingSetup& setup,
                                                                         ShardControl& control) {
  std::unique_ptr<RingEnvironmentHost> host(new RingEnvironmentHost(config, job, setup, control));
  if (auto allocated = host->allocate(); !allocated) return fail(allocated.error().text);
  return host;
}

Result<void> RingEnvironmentHost::allocate() {
  const RingJob& ring = setup_.job;
  senders_.resize(ring.channels);
  receivers_.resize(ring.channels);
  const NodeConfig& sender = node(ring.previous(ring.real_rank));
  const NodeConfig& receiver = node(ring.next(ring.real_rank));
  std::vector<const uint8_t*> received(ring.channels, nullptr);
  const uint32_t slots = RingEnvironment::receive_slots(ring.ranks);
  const RegionKind contents = ring.exact ? RegionKind::kBacked : RegionKind::kDiscard;
  for (uint32_t c = 0; c < ring.channels; ++c) {
    auto fifo =
        control_.add_region(sender.index, kCtsFifoBytes, kAccessRemoteWrite, RegionKind::kBacked);
    if (!fifo) return fail("job \"" + job_.name + "\": " + fifo.error().text);
    auto buffer = control_.add_region(receiver.index, uint64_t{slots} * RingSchedule::kMessageBytes,
                                      kAccessRemoteWrite, contents);
    if (!buffer) return fail("job \"" + job_.name + "\": " + buffer.error().text);
    senders_[c].region = *fifo;
    receivers_[c].region = *buffer;
    receivers_[c].staging.resize(kCtsFifoBytes);
    received[c] = buffer->bytes;
  }
  environment_ = std::make_unique<RingEnvironment>(ring, progress_, received);
  return {};
}

RingNearEnd RingEnvironmentHost::open(uint32_t channel, bool sender) {
  End& end = sender ? senders_[channel] : receivers_[channel];
  if (end.link.qpn == 0) {
    end.link = {control_.take_qpn(), end.region.va, end.region.rkey};
    qpns_.push_back(end.link.qpn);
  }
  return end.link;
}

void RingEnvironmentHost::connect(uint32_t channel, bool sender, const RingFarEnd& far) {
  const RingJob& ring = setup_.job;
  End& end = sender ? senders_[channel] : receivers_[channel];
  const uint32_t rank = sender ? ring.previous(ring.real_rank) : ring.next(ring.real_rank);
  const QpConfig config =
      nccl_qp(config_, node(rank), node(ring.real_rank), job_.nic, end.link.qpn, far, !sender);
  const bool contents = sender || ring.exact;  // the FIFO is always read
  const auto prepare = [&](Qp& qp) {
    if (sender) {
      environment_->sender(channel).connect({&qp, end.region.bytes});
    } else {
      environment_->receiver(channel).connect(
          {&qp, far.fifo_va, far.fifo_rkey, end.region.va, end.region.rkey,
           RingEnvironment::receive_slots(ring.ranks), RingSchedule::kMessageBytes, ring.real_rank,
           end.staging.data()});
    }
  };
  auto control = sender ? data_control(config_, setup_.topology, job_, node(rank),
                                       node(ring.real_rank), far.mtu, false)
                        : nullptr;
  if (control != nullptr) {
    controlled_.push_back({name_of(config_, job_, false, channel), control.get()});
  }
  control_.add_qp(config, *environment_, contents, prepare, std::move(control));
  ++connected_;
}

void RingEnvironmentHost::start() { control_.wake(*environment_, RingEnvironment::kStart); }

void RingEnvironmentHost::close() {
  for (const Qpn qpn : qpns_) control_.remove_qp(qpn);
  qpns_.clear();
}

Result<std::unique_ptr<RingRankHost>> RingRankHost::create(const Config& config,
                                                           const JobConfig& job,
                                                           const RingSetup& setup,
                                                           ShardControl& control,
                                                           RingEnvironmentHost& environment) {
  const RingJob& ring = setup.job;
  std::unique_ptr<RingRankHost> host(new RingRankHost(control, ring.operations.size()));
  const NodeConfig& self = config.nodes[job.ranks[ring.real_rank]];
  const NodeConfig& next = config.nodes[job.ranks[ring.next(ring.real_rank)]];
  const NodeConfig& previous = config.nodes[job.ranks[ring.previous(ring.real_rank)]];
  RingRank::Memory memory;
  memory.input_seed = splitmix64(config.seed);  // the reference node's own, not the emulator's
  uint64_t largest = 0;
  for (const uint64_t bytes : job.sizes) largest = std::max(largest, bytes);
  if (ring.exact) host->data_.resize(largest / sizeof(float));
  memory.data = host->data_;
  std::vector<ExposedRegion> fifos, buffers;
  const RegionKind contents = ring.exact ? RegionKind::kBacked : RegionKind::kDiscard;
  for (uint32_t c = 0; c < ring.channels; ++c) {
    auto fifo =
        control.add_region(self.index, kCtsFifoBytes, kAccessRemoteWrite, RegionKind::kBacked);
    auto buffer = control.add_region(
        self.index, uint64_t{RingRank::kReceiveSlots} * RingSchedule::kMessageBytes,
        kAccessRemoteWrite, contents);
    if (!fifo || !buffer) return fail("job \"" + job.name + "\": no memory region is left");
    fifos.push_back(*fifo);
    buffers.push_back(*buffer);
    memory.received.push_back(buffer->bytes);
    host->staging_.emplace_back(kCtsFifoBytes);
  }
  host->rank_ = std::make_unique<RingRank>(ring, host->progress_, memory);
  for (uint32_t c = 0; c < ring.channels; ++c) {
    for (const bool we_send : {true, false}) {
      const NodeConfig& far_node = we_send ? next : previous;
      const RingNearEnd theirs = environment.open(c, !we_send);
      const Qpn ours = control.take_qpn();
      RingFarEnd far;
      far.qpn = theirs.qpn;
      far.mtu = config.fabric.mtu;
      far.traffic_class = job.sender.traffic_class;
      QpConfig qp_config = nccl_qp(config, self, far_node, job.nic, ours, far, !we_send);
      qp_config.addressing.dst_mac = far_node.nics[job.nic].mac;
      RingFarEnd us;
      us.qpn = ours;
      us.mtu = config.fabric.mtu;
      us.traffic_class = job.sender.traffic_class;
      if (we_send) {
        us.fifo_va = fifos[c].va;
        us.fifo_rkey = fifos[c].rkey;
      }
      const auto prepare = [&](Qp& qp) {
        if (we_send) {
          host->rank_->sender(c).connect({&qp, fifos[c].bytes});
        } else {
          host->rank_->receiver(c).connect(
              {&qp, theirs.va, theirs.rkey, buffers[c].va, buffers[c].rkey, RingRank::kReceiveSlots,
               RingSchedule::kMessageBytes, ring.previous(ring.real_rank),
               host->staging_[c].data()});
        }
      };
      auto steered = we_send
                         ? data_control(config, setup.topology, job, far_node, self, far.mtu, true)
                         : nullptr;
      if (steered != nullptr) {
        host->controlled_.push_back({name_of(config, job, true, c), steered.get()});
      }
      control.add_qp(qp_config, *host->rank_, we_send || ring.exact, prepare, std::move(steered));
      environment.connect(c, !we_send, us);
    }
  }
  return host;
}

}  // namespace understudy
