// Bad input: each case names the line, the key and words of the message that it must give.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "ctrl/config/load.h"
#include "tests/ctrl_config_sample.h"

namespace understudy {
namespace {

/// The sample with the first `from` after `section` replaced by `to`. The one error must stand in
/// the line that contains "#!" (a comment), and hold `key` and all of `words`.
struct BadCase {
  const char* section;
  const char* from;
  const char* to;
  const char* key;
  std::vector<const char*> words;
};

std::string edited(const BadCase& bad) {
  std::string text = kSampleConfig;
  const size_t section = text.find(bad.section);
  const size_t at = section == std::string::npos ? section : text.find(bad.from, section);
  if (at == std::string::npos) {
    ADD_FAILURE() << "the sample lacks " << bad.section << " " << bad.from;
    return text;
  }
  return text.replace(at, std::string_view(bad.from).size(), bad.to);
}

unsigned marked_line(const std::string& text) {
  const size_t mark = text.find("#!");
  EXPECT_NE(mark, std::string::npos) << "no mark in the case";
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(mark, text.size()));
  return static_cast<unsigned>(std::count(text.begin(), end, '\n') + 1);
}

const BadCase kBadCases[] = {
    // Format and settings.
    {"", "format = 1", "format = 2#!", "format", {"found 2", "integer from 1 to 1"}},
    {"", "format = 1", "format = \"1\"#!", "format", {"found \"1\""}},
    {"", "format = 1", "#!", "format", {"missing", "format = 1"}},
    {"", "seed = 7", "seed = -1#!", "seed", {"found -1"}},
    {"", "seed = 7", "seed = 99999999999999999999#!", "seed", {"expected an integer"}},
    {"", "seed = 7", "sead = 7#!", "sead", {"unknown key", "did you mean \"seed\""}},
    {"", "tolerance = 0.02", "tolerance = 0#!", "fidelity.tolerance", {"above 0 and at most 1"}},
    {"", "tolerance = 0.02", "tolerance = 1.01#!", "fidelity.tolerance", {"1.01", "at most 1"}},
    {"", "tolerance = 0.02", "tolerance = nan#!", "fidelity.tolerance", {"at most 1"}},
    {"", "tolerance = 0.02", "tolerance = \"1%\"#!", "fidelity.tolerance", {"expected a number"}},
    {"",
     "idle = \"sleep\"",
     "idle = \"slep\"#!",
     "fidelity.idle",
     {"did you mean \"sleep\"", "one of spin, sleep"}},
    {"", "mtu = 1024", "mtu = 1500#!", "fabric.mtu", {"1500", "256, 512, 1024, 2048 or 4096"}},
    {"", "mtu = 1024", "mtu = 8192#!", "fabric.mtu", {"from 256 to 4096"}},
    {"", "\"cut-through\"", "\"store-and-forward\"#!", "fabric.switching", {"one of cut-through"}},
    {"", "[\"icmp\"]", "[\"tcp\"]#!", "fabric.through", {"found \"tcp\"", "icmp"}},
    {"", "[\"icmp\"]", "\"icmp\"#!", "fabric.through", {"expected an array"}},
    {"", "pacing = false", "pacing = 0#!", "fabric.pacing", {"true or false"}},
    {"",
     "udp_source_port = \"random\"",
     "udp_source_port = \"randon\"#!",
     "fabric.udp_source_port",
     {"did you mean \"random\""}},
    {"", "pacing", "pacign = true#!\npacing", "fabric.pacign", {"did you mean \"pacing\""}},
    {"", "[fabric]", "[fabrik]#!\nx = 1\n[fabric]", "fabrik", {"did you mean \"fabric\""}},
    {"", "packets = 1000", "packets = 10#!", "limits.packets", {"64 to 1048576"}},
    {"", "queue_pairs = 500", "queue_pairs = 300000#!", "limits.queue_pairs", {"1 to 262128"}},
    {"", "regions = 600", "region = 6#!", "limits.region", {"did you mean \"regions\""}},
    // Prefixes.
    {"[[prefix]]",
     "10.9.0.0/24\"",
     "10.9.0.200/29\"#!",
     "prefix.v4",
     {"too small", "has 8 addresses", "15 addresses are needed"}},
    {"[[prefix]]",
     "fd00:9::/64\"",
     "fd00:9::/125\"#!",
     "prefix.v6",
     {"too small", "15 addresses are needed"}},
    {"[[prefix]]", "10.9.0.0/24\"", "10.9.0.0\"#!", "prefix.v4", {"IPv4 prefix"}},
    {"[[prefix]]", "10.9.0.0/24\"", "fd00::/64\"#!", "prefix.v4", {"IPv4 prefix"}},
    {"[[prefix]]",
     "10.9.0.0/24\"",
     "10.9.0.5/24\"#!",
     "prefix.v4",
     {"must be zero", "10.9.0.0/24"}},
    {"[[prefix]]", "nic = 1", "nic = 0#!", "prefix.nic", {"already given in line 17"}},
    {"[[prefix]]", "nic = 1\n", "nic = 16#!\n", "prefix.nic", {"0 to 15"}},
    {"[[prefix]]", "vlan = 100\npcp = 3", "pcp = 3#!", "prefix.pcp", {"needs vlan"}},
    {"[[prefix]]", "vlan = 100", "vlan = 4095#!", "prefix.vlan", {"1 to 4094"}},
    {"[[prefix]]", "pcp = 3", "pcp = 8#!", "prefix.pcp", {"0 to 7"}},
    {"[[prefix]]", "first = 10", "first = 0#!", "prefix.first", {"found 0"}},
    {"[[prefix]]",
     "v6 = \"fd00:a",
     "V6 = \"fd00:a::/64\"#!\nv6 = \"fd00:a",
     "prefix.V6",
     {"did you mean \"v6\""}},
    // Nodes.
    {"[[node]]",
     "name = \"solo\"",
     "name = \"w1\"#!",
     "node.name",
     {"two nodes have this name", "line 36"}},
    {"[[node]]", "name = \"solo\"", "name = \"so lo\"#!", "node.name", {"letters, digits"}},
    {"[[node]]",
     "10.9.0.200\"",
     "10.9.0.12\"#!",
     "node.address",
     {"two NICs have this address", "w1 and solo"}},
    {"[[node]]", "10.9.0.200\"", "10.8.0.12\"#!", "node.address", {"outside", "10.9.0.0/24"}},
    {"[[node]]", "10.9.0.200\"", "10.9.0.256\"#!", "node.address", {"expected an IP address"}},
    {"[[node]]",
     "52:54:00:0a:09:01\"",
     "02:75:01:00:00:02\"#!",
     "node.mac",
     {"two NICs have this MAC address", "w1 and solo"}},
    {"[[node]]", "52:54:00:0a:09:01\"", "53:54:00:0a:09:01\"#!", "node.mac", {"unicast"}},
    {"[[node]]",
     "count = 3",
     "count = 3\naddress = \"10.9.0.77\"#!",
     "node.address",
     {"count = 1 and nics = 1"}},
    {"[[node]]",
     "count = 3",
     "count = 3\nmac = \"02:00:00:00:00:01\"#!",
     "node.mac",
     {"count = 1 and nics = 1"}},
    {"[[node]]", "count = 3", "count = 0#!", "node.count", {"1 to 65536"}},
    {"[[node]]", "count = 3", "count = 65536#!", "node.count", {"at most 65536"}},
    {"[[node]]", "gpus = 8", "gpu = 8#!", "node.gpu", {"did you mean \"gpus\""}},
    {"[[node]]",
     "name = \"gpu\"",
     "name = \"gpu\"\ncuont = 1#!",
     "node.cuont",
     {"did you mean \"count\""}},
    {"[[node]]",
     "rate = \"100Mbit/s\", latency = \"1.5us\" }",
     "rate = 100, latency = \"1.5us\" }#!",
     "node.link.rate",
     {"found 100:", "a bare number has no unit", "100Gbit/s"}},
    {"[[node]]",
     "rate = \"100Mbit/s\", latency = \"1.5us\" }",
     "rate = \"100Mbit/s\", latency = 1.5 }#!",
     "node.link.latency",
     {"bare number"}},
    {"[[node]]",
     "rate = \"100Mbit/s\", latency = \"1.5us\" }",
     "rate = \"100us\", latency = \"1.5us\" }#!",
     "node.link.rate",
     {"found \"100us\"", "unknown unit \"us\""}},
    {"[[node]]",
     "rate = \"100Mbit/s\", latency = \"1.5us\" }",
     "rate = \"0Mbit/s\", latency = \"1.5us\" }#!",
     "node.link.rate",
     {"above zero"}},
    {"[[node]]",
     "rate = \"100Mbit/s\", latency = \"1.5us\" }",
     "rate = \"1Gbit/s\" }#!",
     "node.link.latency",
     {"missing"}},
    {"[[node]]",
     "latency = \"1.5us\" }",
     "latncy = \"1us\", latency = \"1.5us\" }#!",
     "node.link.latncy",
     {"did you mean \"latency\""}},
    {"name = \"solo\"",
     "link = { rate = \"unlimited\", latency = \"0ns\" }",
     "link = \"1Gbit/s\"#!",
     "node.link",
     {"expected a table"}},
    // Ports.
    {"[[port]]",
     "real = \"gpu\"",
     "real = \"gqu\"#!",
     "port.real",
     {"no node of this name", "did you mean \"gpu\""}},
    {"[[port]]", "real = \"gpu\"", "real = \"w0\"#!", "port.real", {"real = true"}},
    {"[[port]]", "nic = 0", "nic = 2#!", "port.nic", {"node gpu has 2 NIC(s)"}},
    {"[[port]]", "nic = 1", "nic = 0#!", "port.nic", {"already has the port in line 48"}},
    {"[[port]]",
     "device = \"virtual\"",
     "device = \"net_vhost0,iface=/run/x.sock\"#!",
     "port.device",
     {"already is the port in line 48"}},
    {"[[port]]", "device = \"virtual\"", "device = \"\"#!", "port.device", {"empty"}},
    {"[[port]]", "rate = \"25Gbit/s\"", "rate = 25#!", "port.rate", {"bare number"}},
    // Jobs.
    {"[[job]]",
     "\"w0\", \"w2\"]",
     "\"w0\", \"w3\"]#!",
     "job.ranks",
     {"found \"w3\"", "no node of this name", "did you mean"}},
    {"[[job]]",
     "\"w0\", \"w2\"]",
     "\"w0\", \"w0\", \"w2\"]#!",
     "job.ranks",
     {"node w0 already is a rank"}},
    {"[[job]]",
     "[\"w*\", \"gpu\"]",
     "[\"w*\", \"w1\", \"gpu\"]#!",
     "job.ranks",
     {"node w1 already is a rank"}},
    {"[[job]]",
     "[\"w*\", \"gpu\"]",
     "[\"x*\", \"gpu\"]#!",
     "job.ranks",
     {"found \"x*\"", "no [[node]] of this name"}},
    {"[[job]]", "[\"w*\", \"gpu\"]", "[\"gpu\"]#!", "job.ranks", {"1 rank(s)", "at least two"}},
    {"[[job]]", "[\"w*\", \"gpu\"]", "[]#!", "job.ranks", {"0 rank(s)", "at least two"}},
    {"[[job]]", "[\"w*\", \"gpu\"]", "[\"w*\"]#!", "job.ranks", {"no real node"}},
    {"[[job]]", "[\"w*\", \"gpu\"]", "[1, \"gpu\"]#!", "job.ranks", {"found 1:", "text in quotes"}},
    {"[[job]]",
     "ranks = [\"w*\", \"gpu\"]\nnic = 1",
     "ranks = [\"w*\", \"gpu\", \"solo\"]\nnic = 1#!",
     "job.nic",
     {"node solo has 1 NIC(s)"}},
    {"[[job]]",
     "collective = \"all_reduce\"",
     "collective = \"allreduce\"#!",
     "job.collective",
     {"did you mean \"all_reduce\""}},
    {"[[job]]", "algorithm = \"ring\"", "algorithm = \"tree\"#!", "job.algorithm", {"one of ring"}},
    {"[[job]]",
     "[\"4KiB\", \"16MiB\"]",
     "[\"4KiB\", \"0B\"]#!",
     "job.sizes",
     {"0 bytes", "positive multiple of 4"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "[\"4KiB\", \"6B\"]#!", "job.sizes", {"multiple of 4"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "[4096]#!", "job.sizes", {"found 4096", "bare number"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "[]#!", "job.sizes", {"an empty array"}},
    {"[[job]]", "[\"4KiB\", \"16MiB\"]", "\"4KiB\"#!", "job.sizes", {"expected an array"}},
    {"[[job]]",
     "from = \"4KiB\", to = \"100KiB\", factor = 4 }",
     "from = \"0KiB\", to = \"1KiB\" }#!",
     "job.sizes",
     {"positive multiple of 4"}},
    {"[[job]]",
     "to = \"100KiB\", factor = 4 }",
     "to = \"1KiB\", factor = 4 }#!",
     "job.sizes.to",
     {"1024 bytes", "smaller than from"}},
    {"[[job]]", "factor = 4 }", "factor = 1 }#!", "job.sizes.factor", {"2 to 1024"}},
    {"[[job]]", "iterations = 3", "iterations = 0#!", "job.iterations", {"found 0"}},
    {"[[job]]", "channels = 2", "channels = 65#!", "job.channels", {"1 to 64"}},
    {"[[job]]",
     "payload = \"exact\"",
     "payload = \"Exact\"#!",
     "job.payload",
     {"did you mean \"exact\"", "synthetic, exact"}},
    {"[[job]]", "step_cost = \"250ns\"", "step_cost = 250#!", "job.step_cost", {"bare number"}},
    {"[[job]]",
     "rank = 2, delay = \"5ms\" }]",
     "rank = 3, delay = \"5ms\" }]#!",
     "job.skew.rank",
     {"0 to 2"}},
    {"[[job]]",
     "delay = \"5ms\" }]",
     "delay = \"5ms\" }, { rank = 2, delay = \"1ms\" }]#!",
     "job.skew.rank",
     {"twice"}},
    {"[[job]]", "[{ rank = 2, delay = \"5ms\" }]", "[5]#!", "job.skew", {"array of tables"}},
    {"[[job]]", "name = \"second\"", "name = \"first\"#!", "job.name", {"two jobs", "line 59"}},
    // Services and events.
    {"[[service]]", "node = \"w0\"", "node = \"gpu\"#!", "service.node", {"emulated node"}},
    {"[[service]]", "node = \"w0\"", "node = \"W0\"#!", "service.node", {"did you mean \"w0\""}},
    {"[[service]]", "port = 18515", "port = 65536#!", "service.port", {"1 to 65535"}},
    {"[[service]]",
     "kind = \"write_bw\"",
     "kind = \"write_bw\"\n[[service]]\nnode = \"w0\"\nport = 18515#!",
     "service.port",
     {"node w0 already has the service on this port"}},
    {"[[service]]", "\"write_bw\"", "\"writebw\"#!", "service.kind", {"did you mean \"write_bw\""}},
    {"[[service]]", "\"backed\"", "\"patern\"#!", "service.memory", {"pattern"}},
    {"[[service]]", "size = \"1MiB\"", "size = \"0B\"#!", "service.size", {"1 GiB"}},
    {"[[service]]", "= 2048", "= 2000#!", "service.pingpong_mtu", {"2048"}},
    {"[[client]]", "node = \"w1\"", "node = \"gpu\"#!", "client.node", {"emulated node"}},
    {"[[client]]", "server = \"gpu\"", "server = \"w0\"#!", "client.server", {"real node"}},
    {"[[client]]", "\"send_bw\"", "\"send_lat\"#!", "client.kind", {"send_bw"}},
    {"[[client]]", "size = \"4KiB\"", "size = \"2GiB\"#!", "client.size", {"1 GiB"}},
    {"[[client]]",
     "iterations = 500",
     "iterations = 0#!",
     "client.iterations",
     {"1 to 2147483647"}},
    {"[[event]]", "link = \"w1\"", "link = \"w9\"#!", "event.link", {"no node of this name"}},
    {"",
     "[[event]]\nat = \"40ms\"\nlink = \"w1\"\nlatency = \"9us\"",
     "[[event]]#!\nat = \"40ms\"\nlink = \"w1\"",
     "event.rate",
     {"rate, latency or both"}},
    {"[[event]]", "rate = \"50Mbit/s\"", "rate = \"0Mbit/s\"#!", "event.rate", {"above zero"}},
    {"[[event]]", "at = \"40ms\"", "at = 40#!", "event.at", {"bare number", "2us"}},
    // Faults.
    {"[[fault]]",
     "[[fault]]\nname = \"late\"\naction = \"delay\"",
     "[[fault]]#!",
     "fault.action",
     {"missing", "drop, duplicate"}},
    {"[[fault]]",
     "\"delay\"",
     "\"delai\"#!",
     "fault.action",
     {"did you mean \"delay\"", "one of drop, duplicate, reorder"}},
    {"[[fault]]", "\"to_real\"", "\"real\"#!", "fault.direction", {"to_real, from_real, both"}},
    {"[[fault]]", "node = \"w1\"", "node = \"w9\"#!", "fault.node", {"there is no node"}},
    {"[[fault]]", "node = \"w1\"", "node = \"gpu\"#!", "fault.node", {"emulated end"}},
    {"[[fault]]", "queue_pair = 2", "queue_pair = 0#!", "fault.queue_pair", {"from 1"}},
    {"[[fault]]", "\"read_response\"", "\"reads\"#!", "fault.packets", {"did you mean \"read\""}},
    {"[[fault]]", "psn = 5", "psn = 16777216#!", "fault.psn", {"0 to 16777215"}},
    {"[[fault]]", "round = 3", "round = 0#!", "fault.round", {"from 1"}},
    {"[[fault]]", "to = \"2ms\"", "to = \"1ms\"#!", "fault.to", {"a time after from"}},
    {"[[fault]]", "nth = 7", "nth = 0#!", "fault.nth", {"from 1"}},
    {"[[fault]]", "every = 7", "every = 0#!", "fault.every", {"from 1"}},
    {"[[fault]]", "0.25", "0#!", "fault.probability", {"above 0 and at most 1"}},
    {"[[fault]]", "0.25", "1.5#!", "fault.probability", {"1.5", "above 0 and at most 1"}},
    {"[[fault]]", "max = 4", "max = 0#!", "fault.max", {"from 1"}},
    {"[[fault]]",
     "[[fault]]\naction = \"duplicate\"\ncopies = 3",
     "[[fault]]#!\naction = \"delay\"",
     "fault.delay",
     {"missing"}},
    {"[[fault]]",
     "delay = \"30us\"",
     "delay = \"30us\"\ncopies = 1#!",
     "fault.copies",
     {"belongs to action = \"duplicate\" only"}},
    {"[[fault]]", "copies = 3", "copies = 17#!", "fault.copies", {"1 to 16"}},
    {"[[fault]]",
     "copies = 3",
     "behind = 3#!",
     "fault.behind",
     {"belongs to action = \"reorder\""}},
    {"[[fault]]", "icrc = \"good\"", "icrc = \"ok\"#!", "fault.icrc", {"one of bad, good"}},
    {"[[fault]]", "icrc = \"good\"", "delay = \"1us\"#!", "fault.delay", {"duplicate and reorder"}},
    {"[[fault]]",
     "behind = 2",
     "icrc = \"good\"#!",
     "fault.icrc",
     {"belongs to action = \"corrupt\""}},
};

// rules: A1.13
TEST(ConfigBad, EachCaseGivesItsOneError) {
  for (const BadCase& bad : kBadCases) {
    SCOPED_TRACE(bad.to);
    const std::string text = edited(bad);
    const ConfigResult result = load_config_text(text, "bad.toml");
    EXPECT_FALSE(result) << "accepted";
    if (result) continue;
    const std::vector<ConfigError>& errors = result.error();
    EXPECT_EQ(errors.size(), 1u) << describe(errors);
    EXPECT_EQ(errors[0].file, "bad.toml");
    EXPECT_EQ(errors[0].key, bad.key) << describe(errors);
    EXPECT_EQ(errors[0].line, marked_line(text)) << describe(errors);
    for (const char* words : bad.words) {
      EXPECT_NE(errors[0].text().find(words), std::string::npos)
          << "\"" << words << "\" is not in: " << errors[0].text();
    }
  }
}

constexpr char kRing[] = R"(format = 1
[[prefix]]
nic = 0
v4 = "10.0.0.0/24"
[[node]]
name = "r"
count = 2
real = true
link = { rate = "1Gbit/s", latency = "1us" }
[[node]]
name = "e"
count = 3
link = { rate = "1Gbit/s", latency = "1us" }
[[port]]
real = "r0"
device = "virtual"
[[port]]
real = "r1"
device = "virtual"
[[job]]
name = "j"
collective = "all_reduce"
sizes = ["4B"]
)";

/// The texts of all errors, or "" if the configuration is good.
std::string errors_of(const std::string& text) {
  const ConfigResult result = load_config_text(text, "f");
  return result ? "" : describe(result.error());
}

TEST(ConfigBad, RealNodesInOneRing) {
  const std::string ring = kRing;
  EXPECT_EQ(errors_of(ring + "ranks = [\"r0\", \"e*\"]"), "");
  EXPECT_EQ(errors_of(ring + "ranks = [\"r0\", \"e0\", \"r1\", \"e1\"]"),
            "f:24: job.ranks: found real nodes r0 and r1: several real nodes in one job are not "
            "supported yet; give each a job of its own\n");
  EXPECT_EQ(errors_of(ring + "ranks = [\"r0\", \"r1\", \"e1\"]"),
            "f:24: job.ranks: found nodes r0 and r1 next to each other in the ring: traffic "
            "between two real nodes is not supported yet\n");
  // The last rank is the first one's neighbour too.
  EXPECT_EQ(errors_of(ring + "ranks = [\"r0\", \"e0\",\n \"r1\"]"),
            "f:24: job.ranks: found nodes r1 and r0 next to each other in the ring: traffic "
            "between two real nodes is not supported yet\n");
}

TEST(ConfigBad, JobNeedsPortAndAddress) {
  const std::string ring = std::string(kRing) + "ranks = [\"r1\", \"e0\"]";
  std::string no_port = ring;
  const std::string port = "[[port]]\nreal = \"r1\"\ndevice = \"virtual\"\n";
  no_port.replace(no_port.find(port), port.size(), "");
  EXPECT_EQ(errors_of(no_port),
            "f:21: job.ranks: found \"r1\": there is no [[port]] for NIC 0 of this real node\n");
  std::string no_prefix = ring;
  const std::string prefix = "[[prefix]]\nnic = 0\nv4 = \"10.0.0.0/24\"\n";
  no_prefix.replace(no_prefix.find(prefix), prefix.size(), "");
  const std::string why = " has no address: there is no [[prefix]] with nic = 0\n";
  const std::string this_why = "found 0: this NIC" + why;
  EXPECT_EQ(errors_of(no_prefix), "f:11: port.nic: " + this_why + "f:14: port.nic: " + this_why +
                                      "f:17: job.nic: found 0: NIC 0 of node r1" + why);
}

TEST(ConfigBad, AllErrorsAtOnceInOrderOfLines) {
  const std::string text =
      "format = 3\n"
      "colour = 1\n"
      "[fabric]\n"
      "mtu = 1000\n"
      "[[node]]\n"
      "name = \"a\"\n"
      "count = 2\n"
      "link = { rate = 1, latency = \"1 parsec\" }\n"
      "[[service]]\n"
      "node = \"b\"\n"
      "port = 0\n"
      "[[job]]\n"
      "name = \"j\"\n";
  const ConfigResult result = load_config_text(text, "f");
  ASSERT_FALSE(result);
  std::string seen;
  for (const ConfigError& error : result.error()) {
    seen += std::to_string(error.line) + " " + error.key + "\n";
  }
  EXPECT_EQ(seen,
            "1 format\n2 colour\n4 fabric.mtu\n8 node.link.rate\n8 node.link.latency\n"
            "10 service.node\n11 service.port\n12 job.collective\n12 job.ranks\n12 job.sizes\n");
}

TEST(ConfigBad, WhatFollowsFromAnErrorIsNotReportedAgain) {
  // Neither the ports of the misnamed node nor the job on it are errors of their own.
  std::string text = std::string(kRing) + "ranks = [\"r0\", \"e0\"]";
  text.replace(text.find("name = \"r\""), 10, "name = \"?\"");
  EXPECT_EQ(errors_of(text),
            "f:6: node.name: found \"?\": expected up to 63 letters, digits, '-', '_' and '.'\n");
}

TEST(ConfigBad, SyntaxErrorStandsAlone) {
  const struct {
    const char* text;
    unsigned line;
    const char* words;
  } cases[] = {
      {"format = 9\nseed = \n", 2, "missing value"},
      {"format = 1\n[fabric]\nmtu = 1\nmtu = 2\n", 4, "already exists"},
      {"format = 1\n[[node]\n", 2, "invalid key"},
      {"format = 1\n\nseed = \"abc\n", 3, "string"},
      {"format = 1\n[a]\n[a]\n", 3, "already exists"},
      {"format = 1\n# caf\xe9\n", 2, "not valid UTF-8"},
      {"format = 1\n# \xed\xa0\x80\n", 2, "not valid UTF-8"},
      {"\xc0\xaf", 1, "not valid UTF-8"},
  };
  for (const auto& bad : cases) {
    const ConfigResult result = load_config_text(bad.text, "f");
    ASSERT_FALSE(result) << bad.text;
    ASSERT_EQ(result.error().size(), 1u) << describe(result.error());
    EXPECT_EQ(result.error()[0].line, bad.line) << describe(result.error());
    const std::string text = result.error()[0].text();
    EXPECT_NE(text.find(bad.words), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_EQ(text.find("toml::"), std::string::npos) << text;
  }
}

TEST(ConfigBad, NestingAndSizeAreBounded) {
  const std::string deep = "a = " + std::string(100'000, '[');
  EXPECT_EQ(errors_of(deep), "f:1: more than 64 levels of brackets\n");
  std::string dotted = "format = 1\na";
  for (int i = 0; i < 100'000; ++i) dotted += ".a";
  EXPECT_EQ(errors_of(dotted + " = 1"), "f:2: more than 64 dots in a line\n");
  EXPECT_EQ(errors_of("#" + std::string(1 << 20, 'x')), "f: the file is larger than 1 MiB\n");
  // Brackets and dots in texts and comments are no nesting.
  const std::string harmless = "\nname = \"" + std::string(200, '[') + std::string(200, '.') +
                               "\" # " + std::string(200, '{');
  EXPECT_EQ(errors_of("format = 1" + harmless).find("more than 64"), std::string::npos);
}

TEST(ConfigBad, MessagesStayOneLine) {
  const std::string text = errors_of("format = \"\\u001b[2J\\n\"\n\"a\\nb\" = 1\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;  // format, a?b, no node
  EXPECT_NE(text.find("found \"?[2J?\""), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST(ConfigBad, TablesOfTheWrongShape) {
  EXPECT_NE(errors_of("format = 1\n[node]\nname = \"a\"\n")
                .find("f:2: node: found a table: expected an array of tables: write [[node]]\n"),
            std::string::npos);
  EXPECT_EQ(errors_of("format = 1\n"),
            "f:1: node: found nothing: the key is missing: a configuration needs at least one "
            "[[node]]\n");
}

TEST(ConfigBad, FilesThatCannotBeRead) {
  const std::string missing = testing::TempDir() + "understudy_no_such_file.toml";
  const ConfigResult result = load_config(missing);
  ASSERT_FALSE(result);
  EXPECT_EQ(describe(result.error()), missing + ": cannot open: No such file or directory\n");
  const ConfigResult folder = load_config(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_EQ(describe(folder.error()), testing::TempDir() + ": cannot read: Is a directory\n");
  const ConfigResult endless = load_config("/dev/zero");
  ASSERT_FALSE(endless);
  EXPECT_EQ(describe(endless.error()), "/dev/zero: the file is larger than 1 MiB\n");
}

TEST(ConfigBad, Scenarios) {
  const auto config = load_config_text(kSampleConfig, "good.toml");
  ASSERT_TRUE(config);
  const auto errors = [&](const std::string& text) {
    const ConfigResult result = load_scenario_text(*config, text, "s");
    return result ? "" : describe(result.error());
  };
  EXPECT_EQ(errors("format = 1\n"), "");
  EXPECT_NE(errors("[[fault]]\naction = \"drop\"\n").find("s:1: format: found nothing"),
            std::string::npos);
  EXPECT_NE(errors("format = 1\n[[node]]\nname = \"x\"\n").find("s:2: node: found an unknown key"),
            std::string::npos);
  EXPECT_NE(errors("format = 1\n[[fault]]\naction = \"drop\"\nnode = \"w7\"\n")
                .find("s:4: fault.node: found \"w7\""),
            std::string::npos);
  EXPECT_NE(errors("format = = 1\n").find("s:1: "), std::string::npos);
  const ConfigResult missing = load_scenario(*config, "/no/such/file");
  ASSERT_FALSE(missing);
  EXPECT_EQ(describe(missing.error()), "/no/such/file: cannot open: No such file or directory\n");
}

}  // namespace
}  // namespace understudy
