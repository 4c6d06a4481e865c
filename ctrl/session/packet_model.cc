#include "ctrl/session/packet_model.h"

#include <algorithm>

#include "ctrl/build/rank_job.h"
#include "ctrl/session/packet_run.h"

namespace understudy {
namespace {

uint64_t messages(const CollectiveSetup& setup) {
  std::vector<uint64_t> of_shape;
  for (const auto& shape : setup.shapes) {
    uint64_t& sum = of_shape.emplace_back();
    for (const auto& rank : shape->ranks) {
      for (const Connection& c : rank->connections()) {
        if (c.direction == Direction::kSend) sum += c.messages;
      }
    }
  }
  uint64_t sum = 0;
  for (const JobOperation& operation : setup.operations) sum += of_shape[operation.size];
  return sum;
}

}  // namespace

Result<void> model_by_packets(const Config& config, const JobConfig& job, CollectiveSetup& setup) {
  if (setup.inner == nullptr || messages(setup) > kMostModelledMessages) return {};
  std::vector<FlowSpec> flows;
  uint32_t connections = 0;
  auto ranks = build_rank_job(config, job, *setup.topology, flows, connections);
  if (!ranks) return tl::unexpected(ranks.error());
  if (auto routed = route_flows(*setup.topology, config.seed, flows); !routed) {
    return fail(config.path + ": " + routed.error().text);
  }
  const auto run =
      run_packets(config, setup.topology->graph, flows, {}, nullptr, {}, {ranks->ranks.get()});
  if (!run) return fail(run.error().text);
  for (size_t o = 0; o < setup.operations.size(); ++o) {
    Time entry = Time::never(), end;
    for (const uint32_t rank : setup.job.real) {
      entry = std::min(entry, ranks->ranks->entry(o, rank));
      end = std::max(end, ranks->ranks->completion(o, rank));
    }
    setup.modelled[o] = end - entry;
  }
  setup.model = ModelKind::kPackets;
  return {};
}

}  // namespace understudy
