// Links of NCCL's connections in virtual time: they join when they like, over one queue pair or
// several, and those that no plan knows go on all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "ctrl/compile/collective.h"
#include "ctrl/compile/shard_config.h"
#include "ctrl/config/read/load.h"
#include "ctrl/jobs/operations/unplanned_links.h"
#include "ctrl/jobs/ranks_host.h"
#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "dataplane/virtual_time/simulation.h"
#include "tests/rigs/one_real_node.h"
#include "tests/rigs/own_workload.h"

namespace understudy {
namespace {

std::string text_of(const std::string& job) {
  return OneRealNode().text() +
         "[[job]]\nname = \"job\"\nranks = [\"gpu\", \"w*\"]\nsizes = [\"64KiB\", \"256KiB\"]\n"
         "iterations = 2\nentry = \"first_credit\"\ninterval = \"100us\"\n" +
         job;
}

struct Side {
  explicit Side(const ShardConfig& config) : shard(config), control(shard) {}
  Shard shard;
  ShardControl control;
};

/// Both shards, and their time.
struct Network {
  explicit Network(const std::string& job)
      : config(*load_config_text(text_of(job), "test.toml")),
        emulator(emulator_shard(config, {0}, MacAddress{})),
        reference(reference_shard(config, {0})) {
    auto made = Simulation::create({{"gpu", &emulator.shard, &reference.shard, 0, 0}}, "");
    EXPECT_TRUE(made);
    simulation = std::move(*made);
  }
  void run(Duration by) {
    now += by;
    EXPECT_TRUE(simulation->run(now));
    emulator.control.poll();
    reference.control.poll();
  }

  Config config;
  Side emulator, reference;
  std::unique_ptr<Simulation> simulation;
  Time now;
};

struct Case {
  std::string job;
  uint32_t queue_pairs = 1;
  bool split = false;
  uint32_t minor = 28;
};

/// All links join one after the other, in any order, the job having begun before or not.
void expect_done(const Case& c, unsigned seed) {
  SCOPED_TRACE(c.job + " queue pairs " + std::to_string(c.queue_pairs) + " 2." +
               std::to_string(c.minor));
  Network net(c.job);
  const JobConfig& job = net.config.jobs[0];
  const auto state =
      begin_job(net.config, job, build_collective(net.config, job, false).value()).value();
  const CollectiveSetup& setup = *state->setup;
  const OwnWorkload workload(net.config, job, *state);
  const NcclWire wire{
      .layout = net_ib_layout({c.minor}).cts, .queue_pairs = c.queue_pairs, .split = c.split};
  auto environment = EmulatedRanksBinding::create(net.config, job, *state, net.emulator.control,
                                                  false, wire.layout);
  ASSERT_TRUE(environment) << environment.error().text;
  EmulatedRanksBinding& host = **environment;
  auto ranks = RanksHost::create(net.config, job, *state, 0, net.reference.control, wire);
  ASSERT_TRUE(ranks) << ranks.error().text;
  const bool told = job.operations == OperationsMode::kTold;
  if (!told) host.start();
  std::vector<uint32_t> links(setup.job.links.size());
  for (uint32_t l = 0; l < links.size(); ++l) links[l] = l;
  std::shuffle(links.begin(), links.end(), std::mt19937(seed));
  for (const uint32_t l : links) {
    const CollectiveConnection& link = setup.job.links[l];
    NcclConnector connector{.emulated = link.far,
                            .real = link.real,
                            .channel = link.channel,
                            .index = link.index,
                            .real_sends = link.real_sends};
    EXPECT_EQ(find_link(setup, connector), l);
    connector.channel += 99;
    EXPECT_EQ(find_link(setup, connector), std::nullopt);
    EXPECT_FALSE(host.all_joined());
    ASSERT_TRUE((*ranks)->connect(l, host));
    net.run(Duration::us(3));
    host.join(l);
    host.join(l);  // counts once
    net.run(Duration::us(static_cast<int64_t>(seed % 3)));
  }
  EXPECT_TRUE(host.all_joined());
  if (told) host.start();
  (*ranks)->start();
  for (int i = 0; i < 200 && host.progress().finished < setup.operations.size(); ++i) {
    net.run(Duration::us(500));
  }
  host.end();
  EXPECT_EQ(host.progress().finished, setup.operations.size());
  EXPECT_EQ((*ranks)->progress().finished, setup.operations.size());
  EXPECT_EQ(host.progress().violations, 0u);
  EXPECT_EQ(host.progress().registered, 0u);
  EXPECT_EQ((*ranks)->progress().violations, 0u);
  EXPECT_FALSE(host.progress().failed);
  if (told) {
    for (const CollectiveResult& result : host.progress().results) {
      EXPECT_EQ(result.size_mismatches, 0u);
      EXPECT_GT(result.bytes_received, 0u);
    }
  } else {
    EXPECT_EQ(host.found()->lost, "");
  }
  host.close();
  net.run(Duration::us(1));
  EXPECT_TRUE(host.open(0).qpns.empty()) << "it does not come again";
}

TEST(NcclLinks, JoinWhenTheyLike) {
  unsigned seed = 0;
  for (const std::string operations : {"told", "inferred"}) {
    for (const std::string collective :
         {"all_reduce", "all_to_all", "send_recv", "broadcast", "all_gather"}) {
      // Inference takes some of these for others.
      const bool guessed = collective != "broadcast" && collective != "all_gather";
      if (operations == "inferred" && !guessed) continue;
      expect_done({"operations = \"" + operations + "\"\ncollective = \"" + collective + "\"\n"},
                  ++seed);
    }
  }
}

TEST(NcclLinks, OverSeveralQueuePairsInEveryRelease) {
  unsigned seed = 0;
  for (const uint32_t minor : {18u, 19u, 20u, 23u, 24u, 26u, 28u, 29u, 30u}) {
    for (const bool split : {false, true}) {
      const uint32_t queue_pairs = 2 + seed % 3;
      const std::string nccl = "nccl = \"2." + std::to_string(minor) + "\"\n";
      const std::string protocol = seed % 2 == 0 ? "ll" : "ll128";
      expect_done({nccl + "collective = \"all_reduce\"\nprotocol = \"" + protocol + "\"\n",
                   queue_pairs, split, minor},
                  ++seed);
      const std::string pairs = minor < 22 ? "reduce_scatter" : "all_to_all";
      expect_done({nccl + "collective = \"" + pairs + "\"\n", queue_pairs, split, minor}, ++seed);
    }
  }
  expect_done({"operations = \"inferred\"\ncollective = \"all_reduce\"\n", 4, true}, 1);
  expect_done({"operations = \"inferred\"\ncollective = \"all_reduce\"\n", 4, false}, 1);
}

/// The real rank's end of a connection that only counts: it sends what it has credits for, or
/// grants and looks for LL's flags in what comes.
class RealEnd final : public Endpoint {
 public:
  RealEnd(bool sends, uint64_t messages) : sends_(sends), messages_(messages) {}
  void on_wake(Time now, uint64_t) override {
    for (int i = 0; i < 8 && !sends_; ++i) receiver.grant(now, *host_, 65536);
    send(now);
  }
  void on_received(Time now, Qp& qp, const Received& came) override {
    if (sends_) return send(now);
    receiver.received(qp, came, [&](uint32_t bytes) {
      EXPECT_EQ(bytes, 65536u);
      for (uint32_t at = 0; at < bytes; at += 16) {
        uint32_t line[4];
        std::memcpy(line, memory + done % 8 * 65536 + at, sizeof line);
        wrong += line[1] != done + 1 || line[3] != done + 1 ? 1 : 0;
      }
      if (++done + 8 <= messages_) receiver.grant(now, *host_, 65536);
    });
  }
  void on_completed(Time, Qp& qp, uint64_t id, WorkStatus status) override {
    EXPECT_EQ(status, WorkStatus::kSuccess);
    if (sends_) sender.acknowledged(qp, id, [&](uint64_t) { ++done; });
  }
  void send(Time now) {
    while (sends_ && sent < messages_ && sender.has_credit(sent)) {
      ASSERT_TRUE(sender.send(now, *host_, sent, static_cast<uint32_t>(sent * 999), {}, sent));
      ++sent;
    }
  }

  NcclSender sender;
  NcclReceiver receiver;
  const uint8_t* memory = nullptr;
  uint64_t sent = 0, done = 0, wrong = 0;

 private:
  const bool sends_;
  const uint64_t messages_;
};

void expect_unplanned(bool real_sends, uint32_t minor, uint32_t queue_pairs, bool split) {
  SCOPED_TRACE(minor);
  constexpr uint64_t kMessages = 300;  // more than there are slots
  Network net("collective = \"all_reduce\"\n");
  const NodeConfig& gpu = net.config.nodes[0];
  const NodeConfig& w = net.config.nodes[1];
  const CtsLayout layout = net_ib_layout({minor}).cts;
  UnplannedLinks links(net.config, net.emulator.control, {.version = {minor}, .layout = layout});
  RealEnd real(real_sends, kMessages);

  EndpointRequest request;
  request.behaviour = Behaviour::kNccl;
  request.mtu = 1024;
  request.nccl.emplace();
  request.nccl->connector = {.emulated = 1, .real_sends = real_sends};
  request.nccl->queue_pairs = queue_pairs;
  request.nccl->local = {roce_address(w.nics[0])};
  request.nccl->split = split;
  request.reserve = true;
  const auto ours = links.create(w, gpu, request);
  ASSERT_TRUE(ours) << ours.error().text;
  ASSERT_EQ(ours->qpns.size(), queue_pairs);

  ShardControl& control = net.reference.control;
  const uint64_t bytes = real_sends ? layout.fifo_bytes() : NcclReceiver::stepped_bytes({});
  const auto region = control.add_region(gpu.index, bytes, kAccessRemoteWrite, RegionKind::kBacked);
  ASSERT_TRUE(region);
  std::vector<uint8_t> staging(size_t{layout.slots} * layout.entry_bytes);
  NcclQps qps{{}, split};
  for (uint32_t q = 0; q < queue_pairs; ++q) {
    request.nccl->remote_qpns.push_back(control.take_qpn());
    QpConfig config =
        nccl_queue_pair(net.config, {}, {&gpu, 0}, {&w, 0}, request.nccl->remote_qpns[q],
                        ours->qpns[q], 1024, 0, !real_sends);
    config.addressing.dst_mac = w.nics[0].mac;
    control.add_qp(config, real, true, [&](Qp& qp) { qps.all.push_back(&qp); });
  }
  if (real_sends) {
    real.sender.connect({.qps = qps, .layout = layout, .fifo = region->bytes});
  } else {
    real.memory = region->bytes + NcclBuffers{}.simple;
    real.receiver.connect({.qps = qps,
                           .layout = layout,
                           .fifo_va = ours->address,
                           .fifo_rkey = ours->rkey,
                           .buffer_va = region->va,
                           .buffer_rkey = region->rkey,
                           .stepped = true,
                           .staging = staging.data()});
  }
  request.reserve = false;
  request.reserved = ours->qpn;
  request.nccl->fifo_address = region->va;
  request.nccl->devices = {{roce_address(gpu.nics[0]), region->rkey}};
  request.nccl->remote_device.assign(queue_pairs, 0);
  ASSERT_TRUE(links.create(w, gpu, request));
  EXPECT_FALSE(links.create(w, gpu, request)) << "it is made already";
  net.run(Duration::us(10));
  EXPECT_EQ(real.sent, 0u);
  links.join(request.nccl->connector);
  control.wake(real, 0);
  for (int i = 0; i < 100 && real.done < kMessages; ++i) net.run(Duration::ms(1));
  EXPECT_EQ(real.done, kMessages);
  EXPECT_EQ(real.wrong, 0u);
  const UnplannedTraffic& traffic = links.traffic();
  EXPECT_EQ(real_sends ? traffic.messages_received : traffic.messages_sent, kMessages);
  EXPECT_EQ(real_sends ? traffic.bytes_received : traffic.bytes_sent,
            real_sends ? 999 * kMessages * (kMessages - 1) / 2 : 65536 * kMessages);
  EXPECT_EQ(traffic.violations, 0u);
  EXPECT_EQ(traffic.registered, 0u);
  EXPECT_EQ(traffic.failed, 0u);
  links.remove(request.nccl->connector);
  EXPECT_FALSE(links.has(request.nccl->connector));
  net.run(Duration::us(1));
}

TEST(UnplannedLinks, GoOnInEveryRelease) {
  for (const uint32_t minor : {18u, 19u, 20u, 24u, 29u, 30u}) {
    for (const bool real_sends : {true, false}) {
      expect_unplanned(real_sends, minor, 1, false);
      expect_unplanned(real_sends, minor, 3, minor % 2 == 0);
    }
  }
}

}  // namespace
}  // namespace understudy
