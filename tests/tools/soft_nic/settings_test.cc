// What the soft NIC's environment variables mean.
#include "tools/soft_nic/base/settings.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace understudy::soft_nic {
namespace {

Result<Settings> read(const std::map<std::string, std::string>& variables) {
  return read_settings([&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

TEST(SoftNicSettings, AllHaveDefaults) {
  const auto settings = read({});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->interface, "");
  EXPECT_EQ(settings->socket, "");
  EXPECT_TRUE(settings->addresses.empty());
  EXPECT_EQ(settings->name, "understudy0");
  EXPECT_EQ(settings->window, 256U);
  EXPECT_FALSE(settings->vlan);
}

TEST(SoftNicSettings, APortIsAnInterfaceOrASocket) {
  EXPECT_EQ(read({{kDeviceVariable, "eth0"}})->interface, "eth0");
  EXPECT_EQ(read({{kDeviceVariable, "af_packet:eth0"}})->interface, "eth0");
  const auto bare = read({{kDeviceVariable, "vhost:/run/a.sock"}, {kAddressVariable, "10.9.0.1"}});
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->socket, "/run/a.sock");
  EXPECT_EQ(bare->interface, "");
  EXPECT_EQ(bare->addresses, std::vector{IpAddress::v4(0x0a090001)});
  const auto two = read({{kAddressVariable, "fd00:9::1,10.9.0.1"}});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->addresses,
            (std::vector{*IpAddress::parse("fd00:9::1"), IpAddress::v4(0x0a090001)}));
  const auto both = read({{kDeviceVariable, "vhost:/run/a.sock,tap=soft0"}});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->socket, "/run/a.sock");
  EXPECT_EQ(both->interface, "soft0");
}

TEST(SoftNicSettings, AVlanIsANumber) {
  EXPECT_EQ(read({{kVlanVariable, "1"}})->vlan, 1);
  EXPECT_EQ(read({{kVlanVariable, "4094"}})->vlan, 4094);
}

TEST(SoftNicSettings, ErrorsNameTheVariable) {
  const std::pair<const char*, const char*> wrong[] = {
      {kDeviceVariable, ""},
      {kDeviceVariable, "a/b"},
      {kDeviceVariable, "a-name-too-long-for-linux"},
      {kDeviceVariable, "memif:/run/a.sock"},
      {kDeviceVariable, "vhost:"},
      {kDeviceVariable, "vhost:/a,"},
      {kDeviceVariable, "vhost:/a,tap="},
      {kDeviceVariable, "vhost:/a,tap=b,c"},
      {kDeviceVariable, "vhost:/a,queues=1"},
      {kAddressVariable, "10.9.0.300"},
      {kAddressVariable, ""},
      {kAddressVariable, "fd00::1/64"},
      {kAddressVariable, "fd00::1,"},
      {kAddressVariable, "fd00::1,10.9.0.1,fd00::1"},
      {kAddressVariable, "::"},
      {kNameVariable, ""},
      {kNameVariable, "a:1"},
      {kWindowVariable, "0"},
      {kWindowVariable, "4097"},
      {kWindowVariable, "64k"},
      {kVlanVariable, "0"},
      {kVlanVariable, "4095"},
      {kVlanVariable, "eth0.5"},
  };
  for (const auto& [variable, value] : wrong) {
    const auto settings = read({{variable, value}});
    ASSERT_FALSE(settings) << variable << "=" << value;
    EXPECT_NE(settings.error().text.find(std::string(variable) + "=" + value), std::string::npos)
        << settings.error().text;
  }
  const auto nowhere = read({{kDeviceVariable, "vhost:/run/a.sock"}});
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().text.find(kAddressVariable), std::string::npos);
}

}  // namespace
}  // namespace understudy::soft_nic
