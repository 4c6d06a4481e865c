#include "ctrl/jobs/nccl/nccl_links.h"

#include <algorithm>

#include "ctrl/peers/nccl/transport/net_ib_layout.h"

namespace understudy {

NcclLinks::NcclLinks(const Config& config, size_t number, JobRunner& runner)
    : config_(config), number_(number), runner_(runner) {}

void NcclLinks::bind(uint32_t communicator, const std::vector<uint32_t>& ranks) {
  communicator_ = communicator;
  ranks_.clear();
  for (const uint32_t rank : ranks) ranks_.emplace(rank, static_cast<uint32_t>(ranks_.size()));
}

/// Communicators that no job describes have none.
std::optional<uint32_t> NcclLinks::link_of(const NcclConnector& connector) const {
  if (connector.communicator != communicator_ || is_one_sided(connector)) return std::nullopt;
  NcclConnector in_job = connector;
  in_job.emulated = own({connector.emulated, connector.real}, connector).here;
  in_job.real = own({connector.emulated, connector.real}, connector).real;
  return find_link(setup(), in_job);
}

NcclLinks::Ends NcclLinks::own(const Ends& ends, const NcclConnector& connector) const {
  if (ranks_.empty()) return ends;
  return {ranks_.at(connector.emulated), ranks_.at(connector.real)};
}

NcclLinks::Planned NcclLinks::planned(uint32_t link) const {
  const CollectiveConnection& l = setup().job.links[link];
  if (!l.among_real()) return {link, &runner_.emulated(number_), nullptr};
  return {l.twin, nullptr, runner_.reference(number_, l.far)};
}

UnplannedLinks& NcclLinks::beside(uint32_t rank) {
  ShardControl* const reference = runner_.reference_control(number_, rank);
  ShardControl& control = reference != nullptr ? *reference : runner_.control(number_);
  const auto known = std::ranges::find(beside_, &control, [](Beside& b) { return &b.control; });
  if (known != beside_.end()) return known->links;
  const BufferSizes& buffers = setup().communicator.buffers;
  const NcclVersion version = config_.jobs[number_].nccl;
  return beside_
      .emplace_back(
          config_, control,
          UnplannedLinks::Settings{
              .version = version,
              .layout = net_ib_layout(version).cts,
              .buffers = {.simple = buffers.simple, .ll = buffers.ll, .ll128 = buffers.ll128},
              .topology = setup().topology,
              .knows_neighbours = reference == nullptr})
      .links;
}

OneSidedLinks& NcclLinks::one_sided() {
  if (one_sided_) return *one_sided_;
  const JobConfig& job = config_.jobs[number_];
  return one_sided_.emplace(config_, runner_.control(number_),
                            OneSidedLinks::Settings{.version = job.nccl,
                                                    .layout = net_ib_layout(job.nccl).cts,
                                                    .topology = setup().topology,
                                                    .exact = setup().job.exact});
}

Result<NcclHost::MemoryKey> NcclLinks::expose(uint32_t rank,
                                              const NcclHost::OneSidedMemory& memory) {
  const NodeConfig& node = node_of(config_, config_.jobs[number_], setup(), rank);
  return one_sided().expose(node.index, memory);
}

Result<EndpointReady> NcclLinks::serve(const Ends& ends, const EndpointRequest& request) {
  if (is_one_sided(request.nccl->connector)) {
    const JobConfig& job = config_.jobs[number_];
    const Ends of_job = own(ends, request.nccl->connector);
    if (runner_.reference_control(number_, of_job.here) != nullptr) {
      return fail("one-sided operations of the emulator's reference nodes are not played");
    }
    return one_sided().create(node_of(config_, job, setup(), of_job.here),
                              node_of(config_, job, setup(), of_job.real), request);
  }
  const auto link = link_of(request.nccl->connector);
  if (!link) {
    const JobConfig& job = config_.jobs[number_];
    const Ends of_job = own(ends, request.nccl->connector);
    return beside(of_job.here)
        .create(node_of(config_, job, setup(), of_job.here),
                node_of(config_, job, setup(), of_job.real), request);
  }
  const Planned at = planned(*link);
  if (at.emulated != nullptr) return at.emulated->serve(at.link, request);
  if (at.reference != nullptr) return at.reference->serve(at.link, request);
  return fail("its reference node is not there");
}

bool NcclLinks::join(const NcclConnector& connector) {
  if (is_one_sided(connector)) {
    if (one_sided_) one_sided_->join(connector);
    return false;
  }
  const auto link = link_of(connector);
  if (!link) {
    for (Beside& of_shard : beside_) of_shard.links.join(connector);
    return false;
  }
  const Planned at = planned(*link);
  if (at.emulated != nullptr) at.emulated->join(at.link);
  if (at.reference != nullptr) at.reference->join(at.link);
  return true;
}

void NcclLinks::give_back(const NcclConnector& connector) {
  if (is_one_sided(connector)) {
    if (one_sided_) one_sided_->remove(connector);
    return;
  }
  const auto link = link_of(connector);
  if (!link) {
    for (Beside& of_shard : beside_) of_shard.links.remove(connector);
    return;
  }
  const Planned at = planned(*link);
  if (at.emulated != nullptr) at.emulated->close(at.link);
  if (at.reference != nullptr) at.reference->close(at.link);
}

void NcclLinks::forget() {
  const Unplanned all = unplanned();
  former_ = {.sent = all.sent, .received = all.received};
  beside_.clear();
  one_sided_.reset();
}

std::optional<Duration> NcclLinks::latency(const NcclConnector& connector) const {
  const auto link = link_of(connector);
  if (!link) return std::nullopt;
  return setup().job.links[*link].latency;
}

NcclLinks::Unplanned NcclLinks::unplanned() const {
  Unplanned all = former_;
  for (const Beside& of_shard : beside_) {
    for (const auto& [communicator, traffic] : of_shard.links.all_traffic()) {
      const uint64_t messages = traffic->messages_sent + traffic->messages_received;
      if (communicator == communicator_) {
        all.own += messages;
      } else {
        all.others[communicator] += messages;
      }
      all.sent += traffic->messages_sent;
      all.received += traffic->messages_received;
      all.violations += traffic->violations;
      all.registered += traffic->registered;
      all.failed += traffic->failed;
    }
  }
  return all;
}

}  // namespace understudy
