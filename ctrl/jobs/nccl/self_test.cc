#include "ctrl/jobs/nccl/self_test.h"

#include <algorithm>
#include <utility>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/merged_nics.h"

namespace understudy {
namespace {

RoceTest::Counts counts_of(const RcCounters& rc) {
  const auto of = [&](RcEvent event) { return rc[static_cast<size_t>(event)]; };
  return {of(RcEvent::kAckSent), of(RcEvent::kAckReceived), of(RcEvent::kTimeout)};
}

}  // namespace

SelfTest::Setup SelfTest::setup_of(const Config& config, const JobConfig& job,
                                   const NodeConfig& real) {
  Setup setup;
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    if (!node.real) setup.sources.push_back({node.name, roce_address(node.nics[job.nic])});
  }
  // Ports of a merged NIC, each with its counterpart.
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    if (node.real) continue;
    const uint32_t last =
        std::min(merged_nics(job, node, job.nic), merged_nics(job, real, job.nic));
    for (uint32_t n = job.nic + 1; n < job.nic + last; ++n) {
      setup.sources.push_back({node.name + ", NIC " + std::to_string(n), roce_address(node.nics[n]),
                               roce_address(real.nics[n])});
    }
  }
  setup.name = real.name;
  setup.target = roce_address(real.nics[job.nic]);
  return setup;
}

SelfTest::SelfTest(const Config& config, const JobConfig& job, NodeId real, PeerNetwork& network,
                   ShardControl& control, RoceProbe probe)
    : SelfTest(real, setup_of(config, job, config.nodes[real]), network, control,
               std::move(probe)) {}

SelfTest::SelfTest(NodeId real, const Setup& setup, PeerNetwork& network, ShardControl& control,
                   RoceProbe probe)
    : real_(real),
      reach_(setup.name, setup.target, setup.sources, network),
      roce_(setup.name, setup.target, setup.sources,
            {std::move(probe), [&control](const IpAddress& remote, auto then) {
               control.count_rc(
                   remote, [then = std::move(then)](const RcCounters& rc) { then(counts_of(rc)); });
             }}) {}

std::vector<std::string> SelfTest::poll(Time now, bool connected) {
  std::vector<std::string> lines;
  if (const auto line = reach_.poll(now)) lines.push_back(*line);
  if (const auto line = roce_.poll(now, reach_.passed(), connected)) lines.push_back(*line);
  return lines;
}

std::string SelfTest::status() const {
  if (reach_.passed() || roce_.passed()) return roce_.status();
  return "self-test: not every emulated address is answered yet";
}

}  // namespace understudy
