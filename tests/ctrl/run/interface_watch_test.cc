#include "ctrl/run/interface_watch.h"

#include <gtest/gtest.h>

namespace understudy {
namespace {

TEST(InterfaceWatch, KnowsWhatDevicesStandOn) {
  EXPECT_EQ(interface_of("net_af_packet0,iface=soft0"), "soft0");
  EXPECT_EQ(interface_of("net_af_packet1,qpairs=1,iface=eth0.100,blocksz=4096"), "eth0.100");
  EXPECT_EQ(interface_of("net_af_xdp0,iface=eth1,start_queue=0"), "eth1");
  for (const char* none : {"net_vhost0,iface=/run/gpu.sock,queues=1", "net_tap0,iface=soft0",
                           "0000:01:00.0", "virtual", "net_af_packet0"}) {
    EXPECT_EQ(interface_of(none), "") << none;
  }
}

Config of(const std::string& device) {
  Config config;
  config.nodes.resize(1);
  config.nodes[0].name = "gpu";
  config.ports.resize(1);
  config.ports[0].node = 0;
  config.ports[0].device = device;
  return config;
}

TEST(InterfaceWatch, WhatIsThereIsNotGone) {
  EXPECT_EQ(InterfaceWatch(of("net_af_packet0,iface=lo")).gone(), "");
  EXPECT_EQ(InterfaceWatch(of("net_vhost0,iface=lo")).gone(), "");
}

}  // namespace
}  // namespace understudy
