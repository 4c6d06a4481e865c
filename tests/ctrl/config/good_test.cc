// A good configuration: every key's value, defaults, expansion, the address rule.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "ctrl/config/read/load.h"
#include "tests/ctrl/config/sample.h"

namespace understudy {
namespace {

Config load_good(const std::string& text) {
  ConfigResult result = load_config_text(text, "good.toml");
  if (!result) {
    ADD_FAILURE() << describe(result.error());
    return {};
  }
  return *result;
}

TEST(ConfigGood, SettingsAreRead) {
  const Config config = load_good(kSampleConfig);
  EXPECT_EQ(config.seed, 7u);
  EXPECT_DOUBLE_EQ(config.fidelity.tolerance, 0.02);
  EXPECT_EQ(config.fidelity.idle, IdleMode::kSleep);
  EXPECT_EQ(config.fidelity.verify_icrc, IcrcVerify::kSampled);
  EXPECT_EQ(config.fabric.mtu, 1024u);
  EXPECT_EQ(config.fabric.control_class, ControlClass::kSeparate);
  EXPECT_TRUE(config.fabric.icmp_through);
  EXPECT_FALSE(config.fabric.pacing);
  EXPECT_EQ(config.fabric.udp_source_port, UdpSourcePort::kRandom);
  EXPECT_EQ(config.limits.packets, 1000u);
  EXPECT_EQ(config.limits.queue_pairs, 500u);
  EXPECT_EQ(config.limits.regions, 600u);
  EXPECT_EQ(config.path, "good.toml");
  EXPECT_EQ(config.source_text, kSampleConfig);
}

TEST(ConfigGood, NodesAreExpanded) {
  const Config config = load_good(kSampleConfig);
  ASSERT_EQ(config.nodes.size(), 5u);
  const char* names[] = {"gpu", "w0", "w1", "w2", "solo"};
  for (NodeId i = 0; i < 5; ++i) {
    EXPECT_EQ(config.nodes[i].name, names[i]);
    EXPECT_EQ(config.nodes[i].index, i);
    EXPECT_EQ(config.nodes[i].real, i == 0);
    EXPECT_EQ(config.nodes[i].nics.size(), i == 4 ? 1u : 2u);
    EXPECT_EQ(config.find_node(names[i]), &config.nodes[i]);
  }
  EXPECT_EQ(config.find_node("w"), nullptr);
  EXPECT_EQ(config.nodes[0].gpus, 8u);
  EXPECT_EQ(config.nodes[1].gpus, 1u);
  EXPECT_EQ(config.nodes[0].nics[1].link_rate, Rate::bits_per_second(100'000'000));
  EXPECT_EQ(config.nodes[0].nics[1].link_latency, Duration::ns(1'500));
  EXPECT_EQ(config.nodes[3].nics[0].link_rate, Rate::bits_per_second(200'000'000));
  EXPECT_TRUE(config.nodes[4].nics[0].link_rate.is_unlimited());
}

TEST(ConfigGood, AddressRule) {
  const Config config = load_good(kSampleConfig);
  ASSERT_EQ(config.nodes.size(), 5u);
  const NicConfig& gpu = config.nodes[0].nics[0];
  EXPECT_EQ(gpu.v4->text(), "10.9.0.10");
  EXPECT_EQ(gpu.v6->text(), "fd00:9::a");
  EXPECT_EQ(gpu.v4_prefix_len, 24u);
  EXPECT_EQ(gpu.v6_prefix_len, 64u);
  EXPECT_EQ(gpu.vlan, 100);
  EXPECT_EQ(gpu.pcp, 3);
  EXPECT_EQ(gpu.mac.text(), "02:75:00:00:00:00");

  const NicConfig& w2 = config.nodes[3].nics[1];
  EXPECT_FALSE(w2.v4);
  EXPECT_EQ(w2.v6->text(), "fd00:a::4");
  EXPECT_FALSE(w2.vlan);
  EXPECT_EQ(w2.mac.text(), "02:75:01:00:00:03");

  const NicConfig& solo = config.nodes[4].nics[0];
  EXPECT_EQ(solo.v4->text(), "10.9.0.200");
  EXPECT_EQ(solo.v6->text(), "fd00:9::e");
  EXPECT_EQ(solo.mac.text(), "52:54:00:0a:09:01");
}

TEST(ConfigGood, PortsJobsServicesEvents) {
  const Config config = load_good(kSampleConfig);
  ASSERT_EQ(config.ports.size(), 2u);
  EXPECT_EQ(config.ports[0].node, 0u);
  EXPECT_EQ(config.ports[0].nic, 0u);
  EXPECT_EQ(config.ports[0].device, "net_vhost0,iface=/run/x.sock");
  EXPECT_EQ(config.ports[0].physical, Rate::bits_per_second(25'000'000'000));
  EXPECT_EQ(config.ports[1].nic, 1u);
  EXPECT_TRUE(config.ports[1].physical.is_unlimited());

  ASSERT_EQ(config.jobs.size(), 2u);
  const JobConfig& first = config.jobs[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.ranks, (std::vector<NodeId>{0, 1, 3}));
  EXPECT_EQ(first.sizes, (std::vector<uint64_t>{4'096, 16'777'216}));
  EXPECT_EQ(first.iterations, 3u);
  EXPECT_EQ(first.warmup, 1u);
  EXPECT_EQ(first.channels, 2u);
  EXPECT_EQ(first.payload, PayloadMode::kExact);
  EXPECT_EQ(first.step_cost, Duration::ns(250));
  EXPECT_EQ(first.entry, EntryMode::kFirstCredit);
  EXPECT_EQ(first.interval, Duration::ms(10));
  EXPECT_EQ(first.skew, (std::vector<Duration>{Duration(), Duration(), Duration::ms(5)}));
  const JobConfig& second = config.jobs[1];
  EXPECT_EQ(second.ranks, (std::vector<NodeId>{1, 2, 3, 0}));
  EXPECT_EQ(second.nic, 1u);
  EXPECT_EQ(second.sizes, (std::vector<uint64_t>{4'096, 16'384, 65'536}));
  EXPECT_EQ(second.iterations, 1u);
  EXPECT_EQ(second.warmup, 0u);
  EXPECT_EQ(second.channels, 1u);
  EXPECT_EQ(second.payload, PayloadMode::kSynthetic);
  EXPECT_EQ(second.entry, EntryMode::kScheduled);
  EXPECT_EQ(second.skew, std::vector<Duration>(4));

  ASSERT_EQ(config.services.size(), 1u);
  EXPECT_EQ(config.services[0].node, 1u);
  EXPECT_EQ(config.services[0].port, 18515);
  EXPECT_EQ(config.services[0].kind, ServiceKind::kWriteBw);
  EXPECT_EQ(config.services[0].memory, MemoryKind::kBacked);
  EXPECT_EQ(config.services[0].message_bytes, 1u << 20);
  EXPECT_EQ(config.services[0].pingpong_mtu, 2048u);
  EXPECT_EQ(config.services[0].accept_delay, Duration::ms(70));

  ASSERT_EQ(config.clients.size(), 1u);
  const ClientConfig& client = config.clients[0];
  EXPECT_EQ(client.node, 2u);
  EXPECT_EQ(client.server, 0u);
  EXPECT_EQ(client.port, 18600);
  EXPECT_EQ(client.kind, ServiceKind::kSendBw);
  EXPECT_EQ(client.bytes, 4096u);
  EXPECT_EQ(client.iterations, 500u);
  EXPECT_EQ(client.queue_pairs, 2u);
  EXPECT_TRUE(client.rdma_cm);
  EXPECT_EQ(client.at, Duration::ms(3));

  ASSERT_EQ(config.events.size(), 2u);  // in order of time, not of the file
  EXPECT_EQ(config.events[0].at, Time::zero() + Duration::ms(20));
  EXPECT_EQ(config.events[0].node, 0u);
  EXPECT_EQ(config.events[0].rate, Rate::bits_per_second(50'000'000));
  EXPECT_FALSE(config.events[0].latency);
  EXPECT_EQ(config.events[1].node, 2u);
  EXPECT_EQ(config.events[1].latency, Duration::us(9));
}

TEST(ConfigGood, Faults) {
  const Config config = load_good(kSampleConfig);
  ASSERT_EQ(config.faults.size(), 4u);
  EXPECT_EQ(config.faults[0].name, "late");
  const Fault& late = config.faults[0].fault;
  EXPECT_EQ(late.action, FaultAction::kDelay);
  EXPECT_EQ(late.direction, FaultDirection::kToReal);
  EXPECT_EQ(late.node, 2u);
  EXPECT_EQ(late.queue_pair, 2u);
  EXPECT_EQ(late.packets, FaultPackets::kReadResponse);
  EXPECT_EQ(late.psn, 5u);
  EXPECT_EQ(late.round, 3u);
  EXPECT_EQ(late.from, Time::zero() + Duration::ms(1));
  EXPECT_EQ(late.to, Time::zero() + Duration::ms(2));
  EXPECT_EQ(late.nth, 7u);
  EXPECT_EQ(late.every, 7u);
  EXPECT_EQ(late.probability, Fault::kAlways / 4);
  EXPECT_EQ(late.most, 4u);
  EXPECT_EQ(late.delay, Duration::us(30));
  EXPECT_EQ(config.faults[1].name, "fault 2");
  const Fault& twice = config.faults[1].fault;
  EXPECT_EQ(twice.action, FaultAction::kDuplicate);
  EXPECT_EQ(twice.count, 3u);
  EXPECT_EQ(twice.direction, FaultDirection::kBoth);
  EXPECT_EQ(twice.node, kNoNode);
  EXPECT_EQ(twice.packets, FaultPackets::kAny);
  EXPECT_FALSE(twice.psn);
  EXPECT_EQ(twice.probability, Fault::kAlways);
  EXPECT_TRUE(twice.to.is_never());
  EXPECT_EQ(config.faults[2].fault.count, 2u);
  EXPECT_EQ(config.faults[2].fault.delay, Duration::ms(10));
  EXPECT_TRUE(config.faults[3].fault.good_icrc);
}

TEST(ConfigGood, ScenariosAddTheirFaults) {
  const Config config = load_good(kSampleConfig);
  const auto with = load_scenario_text(
      config, "format = 1\n[[fault]]\naction = \"drop\"\nnode = \"w2\"\nprobability = 1e-12\n",
      "loss.toml");
  ASSERT_TRUE(with) << describe(with.error());
  ASSERT_EQ(with->faults.size(), 5u);
  EXPECT_EQ(with->faults[4].name, "fault 5");
  EXPECT_EQ(with->faults[4].fault.node, 3u);
  EXPECT_EQ(with->faults[4].fault.probability, 1u);  // rare, not never
  ASSERT_EQ(with->scenarios.size(), 1u);
  EXPECT_EQ(with->scenarios[0].path, "loss.toml");
  EXPECT_EQ(with->scenarios[0].hash.substr(0, 8), "fnv1a64:");
  EXPECT_EQ(with->hash, config.hash);
}

constexpr char kSmallest[] = R"(format = 1
[[node]]
name = "w"
count = 2
link.rate = "1Gbit/s"
link.latency = "1us"
)";

TEST(ConfigGood, DefaultsOfTheSmallest) {
  const Config config = load_good(kSmallest);
  EXPECT_EQ(config.seed, 1u);
  EXPECT_DOUBLE_EQ(config.fidelity.tolerance, 0.01);
  EXPECT_EQ(config.fidelity.idle, IdleMode::kSpin);
  EXPECT_EQ(config.fidelity.verify_icrc, IcrcVerify::kFull);
  EXPECT_EQ(config.fabric.mtu, 4096u);
  EXPECT_EQ(config.fabric.control_class, ControlClass::kShared);
  EXPECT_FALSE(config.fabric.icmp_through);
  EXPECT_TRUE(config.fabric.pacing);
  EXPECT_EQ(config.fabric.udp_source_port, UdpSourcePort::kLinux);
  EXPECT_FALSE(config.limits.packets);
  EXPECT_EQ(config.limits.queue_pairs, 4096u);
  EXPECT_EQ(config.limits.regions, 4096u);
  ASSERT_EQ(config.nodes.size(), 2u);
  EXPECT_FALSE(config.nodes[0].nics[0].v4);
}

TEST(ConfigGood, PrefixThatJustFits) {
  // /29: 8 addresses, the network's and the broadcast's left out.
  const std::string text = std::string(kSmallest) +
                           "[[node]]\nname = \"x\"\ncount = 4\n"
                           "link = { rate = \"1Gbit/s\", latency = \"1us\" }\n"
                           "[[prefix]]\nnic = 0\nv4 = \"10.0.0.8/29\"\n";
  const Config config = load_good(text);
  ASSERT_EQ(config.nodes.size(), 6u);
  EXPECT_EQ(config.nodes[0].nics[0].v4->text(), "10.0.0.9");
  EXPECT_EQ(config.nodes[5].nics[0].v4->text(), "10.0.0.14");
}

TEST(ConfigGood, HashTellsTextsApart) {
  const Config a = load_good(kSmallest);
  const Config b = load_good(std::string(kSmallest) + " ");
  EXPECT_EQ(a.hash.substr(0, 8), "fnv1a64:");
  EXPECT_EQ(a.hash.size(), 24u);
  EXPECT_NE(a.hash, b.hash);
  EXPECT_EQ(a.hash, load_good(kSmallest).hash);
}

TEST(ConfigGood, AnyUtf8InComments) {
  load_good(std::string(kSmallest) + "# \u00e9 \u6771\u4eac \U0001f680 \U0010ffff\n");
}

TEST(ConfigGood, FromAFile) {
  const std::string path = testing::TempDir() + "understudy_config_good_test.toml";
  std::ofstream(path) << kSampleConfig;
  const ConfigResult result = load_config(path);
  std::remove(path.c_str());
  ASSERT_TRUE(result) << describe(result.error());
  EXPECT_EQ(result->path, path);
  EXPECT_EQ(result->hash, load_good(kSampleConfig).hash);
}

}  // namespace
}  // namespace understudy
