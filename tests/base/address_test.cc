// Addresses, their text, and prefixes that addresses are handed out from.
#include "dataplane/base/address.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

IpAddress ip(const char* text) { return *IpAddress::parse(text); }
IpPrefix prefix(const char* text) { return *IpPrefix::parse(text); }

TEST(MacAddress, TextBothWays) {
  EXPECT_EQ(MacAddress::parse("02:75:0A:ff:00:01")->text(), "02:75:0a:ff:00:01");
  for (const char* bad : {"", "02:75:0a:ff:00", "02:75:0a:ff:00:0g", "02-75-0a-ff-00-01",
                          "2:75:0a:ff:00:001", "02:75:0a:ff:00:+1", "02:75:0a:ff:00:01 "}) {
    EXPECT_FALSE(MacAddress::parse(bad)) << bad;
  }
  EXPECT_TRUE(MacAddress::parse("33:33:00:00:00:01")->is_multicast());
}

TEST(IpAddress, Ipv4IsItsGid) {
  const IpAddress a = ip("10.9.0.200");
  EXPECT_TRUE(a.is_v4());
  EXPECT_EQ(a.v4_value(), 0x0a0900c8u);
  EXPECT_EQ(a, IpAddress::v4(0x0a0900c8));
  EXPECT_EQ(a.gid()[10], 0xff);
  EXPECT_EQ(a.gid()[12], 10);
  EXPECT_EQ(a.text(), "10.9.0.200");
  EXPECT_EQ(ip("::ffff:10.9.0.200"), a);
}

TEST(IpAddress, Ipv6) {
  EXPECT_FALSE(ip("fd00::1").is_v4());
  EXPECT_EQ(ip("fd00:0:0::1").text(), "fd00::1");
  EXPECT_TRUE(ip("fe80::1").is_link_local_v6());
  EXPECT_TRUE(ip("febf::1").is_link_local_v6());
  EXPECT_FALSE(ip("fec0::1").is_link_local_v6());
  EXPECT_FALSE(ip("10.0.0.1").is_link_local_v6());
  EXPECT_TRUE(IpAddress().is_unset());
  for (const char* bad : {"", "10.0.0", "10.0.0.256", "fd00::1::2", "localhost", "10.0.0.1/8"}) {
    EXPECT_FALSE(IpAddress::parse(bad)) << bad;
  }
}

TEST(IpPrefix, Contains) {
  EXPECT_TRUE(prefix("10.9.0.0/16").contains(ip("10.9.255.255")));
  EXPECT_FALSE(prefix("10.9.0.0/16").contains(ip("10.10.0.0")));
  EXPECT_TRUE(prefix("10.9.128.0/17").contains(ip("10.9.200.1")));
  EXPECT_FALSE(prefix("10.9.128.0/17").contains(ip("10.9.127.255")));
  EXPECT_TRUE(prefix("0.0.0.0/0").contains(ip("255.1.2.3")));
  EXPECT_FALSE(prefix("0.0.0.0/0").contains(ip("fd00::1")));
  EXPECT_FALSE(prefix("::/0").contains(ip("10.0.0.1")));
  EXPECT_TRUE(prefix("fd00:9::/64").contains(ip("fd00:9::ffff:1")));
  EXPECT_FALSE(prefix("fd00:9::/64").contains(ip("fd00:9:0:1::1")));
}

TEST(IpPrefix, HostsFromItsBase) {
  EXPECT_EQ(prefix("10.9.0.0/16").host(1), ip("10.9.0.1"));
  EXPECT_EQ(prefix("10.9.7.7/16").host(0x102), ip("10.9.1.2")) << "host bits do not count";
  EXPECT_EQ(prefix("10.9.0.0/16").host(0xffff), ip("10.9.255.255"));
  EXPECT_FALSE(prefix("10.9.0.0/16").host(0x10000));
  EXPECT_FALSE(prefix("255.255.0.0/16").host(0x10000)) << "past the end of IPv4";
  EXPECT_EQ(prefix("fd00:9::/64").host(0x100000000), ip("fd00:9::1:0:0"));
  EXPECT_FALSE(prefix("fd00:9::/124").host(16));
  EXPECT_FALSE(prefix("ffff::/16").host(UINT64_MAX).has_value() &&
               !prefix("ffff::/16").contains(*prefix("ffff::/16").host(UINT64_MAX)));
}

TEST(IpPrefix, SizeAndText) {
  EXPECT_EQ(prefix("10.0.0.0/24").size(), 256u);
  EXPECT_EQ(prefix("10.0.0.1/32").size(), 1u);
  EXPECT_EQ(prefix("fd00::/64").size(), uint64_t{1} << 63);
  EXPECT_EQ(prefix("fd00::/66").size(), uint64_t{1} << 62);
  EXPECT_EQ(prefix("10.9.0.0/16").text(), "10.9.0.0/16");
  for (const char* bad :
       {"10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "fd00::/129", "10.0.0.0/8x", "/8"}) {
    EXPECT_FALSE(IpPrefix::parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace understudy
