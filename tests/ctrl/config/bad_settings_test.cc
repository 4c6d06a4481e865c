// Bad input: format, settings and prefixes.
#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

const BadCase kCases[] = {
    // Format and settings.
    {"", "format = 1", "format = 2#!", "format", {"found 2: this version reads format = 1"}},
    {"", "format = 1", "format = \"1\"#!", "format", {"found \"1\""}},
    {"", "format = 1", "#!", "format", {"missing", "format = 1"}},
    {"", "seed = 7", "seed = -1#!", "seed", {"found -1"}},
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
    {"",
     "mtu = 1024",
     "mtu = 8192#!",
     "fabric.mtu",
     {"found 8192", "256, 512, 1024, 2048 or 4096"}},
    {"", "mtu = 1024", "mtu = \"1024\"#!", "fabric.mtu", {"256, 512, 1024, 2048 or 4096"}},
    {"", "\"cut-through\"", "\"store-and-foward\"#!", "fabric.switching", {"did you mean"}},
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
    {"[[prefix]]", "10.9.0.0/24\"", "0.0.0.0/0\"#!", "prefix.v4", {"no addresses in 0.0.0.0/8"}},
    {"[[prefix]]", "10.9.0.0/24\"", "127.0.0.0/24\"#!", "prefix.v4", {"(loopback)"}},
    {"[[prefix]]", "10.9.0.0/24\"", "224.0.0.0/24\"#!", "prefix.v4", {"(multicast)"}},
    {"[[prefix]]", "10.9.0.0/24\"", "192.0.0.0/2\"#!", "prefix.v4", {"in 224.0.0.0/4"}},
    {"[[prefix]]", "10.9.0.0/24\"", "255.255.255.0/24\"#!", "prefix.v4", {"(reserved)"}},
    {"[[prefix]]", "fd00:9::/64\"", "ff02::/64\"#!", "prefix.v6", {"(multicast)"}},
    {"[[prefix]]", "fd00:9::/64\"", "::/64\"#!", "prefix.v6", {"no address, and loopback"}},
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
};

// rules: A1.13
TEST(ConfigBadSettings, EachCaseGivesItsOneError) { expect_errors(kCases); }

/// toml11 takes it for a number of another kind, or from version 4 on for no number.
TEST(ConfigBadSettings, AnIntegerThatIsTooLarge) {
  const std::string text = edited({"", "seed = 7", "seed = 99999999999999999999#!", "", {}});
  const ConfigResult result = load_config_text(text, "f");
  ASSERT_FALSE(result);
  ASSERT_EQ(result.error().size(), 1U) << describe(result.error());
  EXPECT_EQ(result.error()[0].line, marked_line(text));
  const std::string said = result.error()[0].text();
  EXPECT_TRUE(said.find("seed: found") != std::string::npos ||
              said.find("too large integer") != std::string::npos)
      << said;
}

}  // namespace
}  // namespace understudy
