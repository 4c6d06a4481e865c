// A ring of a kernel's rank, a reference node's and an emulated one: what the kernel's program is
// offered, by whom, and which queue pairs it gets.
#include <gtest/gtest.h>

#include "ctrl/compile/scenario.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/jobs/job_runner.h"
#include "ctrl/jobs/job_state.h"
#include "tests/rigs/own_workload.h"

namespace understudy {
namespace {

constexpr char kConfig[] = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.9.0.0/24"
[[node]]
name = "kernel"
real = { kind = "kernel", program = "x" }
link = { rate = "100Gbit/s", latency = "500ns" }
[[node]]
name = "reference"
real = true
link = { rate = "100Gbit/s", latency = "500ns" }
[[node]]
name = "emulated"
link = { rate = "100Gbit/s", latency = "500ns" }
[[port]]
real = "kernel"
device = "virtual"
[[port]]
real = "reference"
device = "virtual"
[[job]]
name = "j"
collective = "all_reduce"
algorithm = "ring"
ranks = ["kernel", "reference", "emulated"]
sizes = ["64KiB"]
payload = "exact"
entry = "first_credit"
)";
constexpr NodeId kKernel = 0, kReference = 1, kEmulated = 2;  // and their ranks

class MixedRing : public testing::Test {
 protected:
  MixedRing()
      : config(*load_config_text(kConfig, "test")),
        emulator(emulator_shard(config, {0, 1}, MacAddress{})),
        reference(reference_shard(config, {1})),
        emulator_control(emulator),
        reference_control(reference) {
    const auto scenario = compile_scenario({config}, RunClock::kVirtual);
    EXPECT_TRUE(scenario) << scenario.error().text;
    WorkloadExecutor none(scenario->workload);  // for jobs without a real rank
    auto states = begin_jobs(*scenario, nullptr, none, false);
    EXPECT_TRUE(states);
    workload.emplace(config, config.jobs[0], *states->front());
    auto made = JobRunner::create(config, {&emulator_control, &emulator_control},
                                  std::move(*states), {nullptr, &reference_control});
    EXPECT_TRUE(made) << made.error().text;
    runner = std::move(*made);
  }
  Result<EndpointReady> connect(uint32_t to, bool sends) {
    EndpointRequest request;
    request.behaviour = Behaviour::kRing;
    request.mtu = 4096;
    request.remote_qpn = 0x77;
    request.ring.emplace();
    request.ring->job = 0;
    request.ring->real_rank = kKernel;
    request.ring->emulated_rank = to;
    request.ring->real_sends = sends;
    return runner->connect(request);
  }

  const Config config;
  Shard emulator, reference;
  ShardControl emulator_control, reference_control;
  std::optional<OwnWorkload> workload;
  std::unique_ptr<JobRunner> runner;
};

TEST_F(MixedRing, BothNeighboursOfAProgramOfferTheJobAlike) {
  EXPECT_TRUE(runner->offers(kKernel).empty());
  for (const NodeId node : {kReference, kEmulated}) {
    const auto offers = runner->offers(node);
    ASSERT_EQ(offers.size(), 1u);
    EXPECT_EQ(offers[0].message.client_rank, kKernel);
    EXPECT_EQ(offers[0].message.peer_rank, node);
    // Values of a reference node's rank are those that emulated ones have.
    EXPECT_EQ(offers[0].message.real_ranks, std::vector<uint32_t>{kKernel});
    EXPECT_EQ(offers[0].client_addresses, std::vector{*IpAddress::parse("10.9.0.1")});
  }
}

TEST_F(MixedRing, AReferenceNodesQueuePairsAreInItsOwnShard) {
  const auto next = connect(kReference, true), previous = connect(kEmulated, false);
  ASSERT_TRUE(next && previous);
  EXPECT_NE(next->address, 0u) << "where credits say that data go";
  EXPECT_EQ(next->qpn >> 16, reference_control.take_qpn() >> 16);
  EXPECT_EQ(previous->qpn >> 16, emulator_control.take_qpn() >> 16);
  EXPECT_FALSE(connect(kReference, false)) << "data go round in one direction";
  EXPECT_TRUE(runner->has_reference());
  EXPECT_FALSE(runner->reference_over());
  EXPECT_FALSE(runner->has_begun(0));
  runner->on_ring_ready(0, kKernel, kReference);
  EXPECT_FALSE(runner->has_begun(0)) << "the other neighbour has yet to be ready";
  runner->on_ring_ready(0, kKernel, kEmulated);
  EXPECT_TRUE(runner->has_begun(0));
}

}  // namespace
}  // namespace understudy
