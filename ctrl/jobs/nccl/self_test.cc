#include "ctrl/jobs/nccl/self_test.h"

#include <set>
#include <span>
#include <utility>

#include "ctrl/compile/shard_config.h"
#include "ctrl/config/job_operation.h"
#include "ctrl/config/merged_nics.h"

namespace understudy {
namespace {

RoceTest::Counts counts_of(const RcCounters& rc) {
  const auto of = [&](RcEvent event) { return rc[static_cast<size_t>(event)]; };
  return {of(RcEvent::kAckSent), of(RcEvent::kAckReceived), of(RcEvent::kTimeout)};
}

/// Of one of the job's nodes those that its ranks take. `firsts`: first_nics(), which looks at all
/// nodes.
std::set<unsigned> nics_of(const JobConfig& job, const NodeConfig& node,
                           std::span<const unsigned> firsts) {
  std::set<unsigned> all;
  for (const unsigned first : firsts) {
    for (uint32_t n = 0; n < merged_nics(job, node, first); ++n) all.insert(first + n);
  }
  return all;
}

/// Those of a real node over which the job's connections to emulated ranks go.
std::set<unsigned> carrying(const Config& config, const JobConfig& job,
                            const CollectiveJob& planned, const NodeConfig& real) {
  const uint32_t gpus = gpus_per_node(config, job);
  std::set<unsigned> all;
  for (const CollectiveConnection& link : planned.links) {
    if (link.among_real() || job.ranks[link.real / gpus] != real.index) continue;
    for (uint32_t n = 0; n < merged_nics(job, real, link.real_nic); ++n) {
      all.insert(link.real_nic + n);
    }
  }
  return all;
}

}  // namespace

SelfTest::Setup SelfTest::setup_of(const Config& config, const JobConfig& job,
                                   const CollectiveJob& planned, const NodeConfig& real) {
  const std::set<unsigned> carry = carrying(config, job, planned, real);
  Setup setup;
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    if (node.real) continue;
    setup.sources.push_back(
        {node.name, roce_address(node.nics[job.nic]), {}, carry.contains(job.nic)});
  }
  // Further NICs of the ranks, and ports of merged ones, each with its counterpart.
  const std::vector<unsigned> firsts = first_nics(config, job);
  const std::set<unsigned> there = nics_of(job, real, firsts);
  for (const NodeId id : job.ranks) {
    const NodeConfig& node = config.nodes[id];
    if (node.real) continue;
    for (const unsigned n : nics_of(job, node, firsts)) {
      if (n == job.nic || !there.contains(n)) continue;
      setup.sources.push_back({node.name + ", NIC " + std::to_string(n), roce_address(node.nics[n]),
                               roce_address(real.nics[n]), carry.contains(n)});
    }
  }
  setup.name = real.name;
  setup.target = roce_address(real.nics[job.nic]);
  return setup;
}

SelfTest::SelfTest(const Config& config, const JobConfig& job, const CollectiveJob& planned,
                   NodeId real, PeerNetwork& network, ShardControl& control, RoceProbe probe)
    : SelfTest(real, setup_of(config, job, planned, config.nodes[real]), network, control,
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

std::vector<std::string> SelfTest::poll(Time now, bool connected, bool carried) {
  std::vector<std::string> lines;
  if (const auto line = reach_.poll(now)) lines.push_back(*line);
  if (const auto line = roce_.poll(now, reach_.passed(), connected, carried))
    lines.push_back(*line);
  return lines;
}

std::string SelfTest::status() const {
  if (reach_.passed() || roce_.passed()) return roce_.status();
  return "self-test: not every emulated address is answered yet";
}

}  // namespace understudy
