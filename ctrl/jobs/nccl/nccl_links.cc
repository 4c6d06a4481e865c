#include "ctrl/jobs/nccl/nccl_links.h"

#include <algorithm>

#include "ctrl/peers/nccl/transport/net_ib_layout.h"

namespace understudy {

NcclLinks::NcclLinks(const Config& config, size_t number, JobRunner& runner)
    : config_(config), number_(number), runner_(runner) {}

/// Children have none, as no plan knows their operations.
std::optional<uint32_t> NcclLinks::link_of(const NcclConnector& connector) const {
  if (connector.communicator != 0) return std::nullopt;
  return find_link(setup(), connector);
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

Result<EndpointReady> NcclLinks::serve(const Ends& ends, const EndpointRequest& request) {
  const auto link = link_of(request.nccl->connector);
  if (!link) {
    const JobConfig& job = config_.jobs[number_];
    return beside(ends.here).create(node_of(config_, job, setup(), ends.here),
                                    node_of(config_, job, setup(), ends.real), request);
  }
  const Planned at = planned(*link);
  if (at.emulated != nullptr) return at.emulated->serve(at.link, request);
  if (at.reference != nullptr) return at.reference->serve(at.link, request);
  return fail("its reference node is not there");
}

bool NcclLinks::join(const NcclConnector& connector) {
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
  former_.sent = all.sent;
  former_.received = all.received;
  beside_.clear();
}

std::optional<Duration> NcclLinks::latency(const NcclConnector& connector) const {
  const auto link = link_of(connector);
  if (!link) return std::nullopt;
  return setup().job.links[*link].latency;
}

NcclLinks::Unplanned NcclLinks::unplanned() const {
  Unplanned all;
  for (const Beside& of_shard : beside_) {
    const UnplannedTraffic& own = of_shard.links.traffic();
    all.own += own.messages_sent + own.messages_received;
    for (const UnplannedTraffic* traffic : {&own, &of_shard.links.children()}) {
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
