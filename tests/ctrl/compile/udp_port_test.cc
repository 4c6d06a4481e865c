// The UDP source port of a queue pair, by the configuration's choice.
#include <gtest/gtest.h>

#include <set>

#include "ctrl/compile/shard_config.h"

namespace understudy {
namespace {

Config with(UdpSourcePort choice, uint64_t seed = 1) {
  Config config;
  config.seed = seed;
  config.fabric.udp_source_port = choice;
  return config;
}

// rules: A1.4
TEST(UdpPort, LinuxFoldsTheProductOfBothNumbers) {
  const Config config = with(UdpSourcePort::kLinux);
  // Linux' rdma_calc_flow_label() and rdma_flow_label_to_udp_sport(), by hand: 0x11 * 0x12 = 0x132.
  EXPECT_EQ(udp_source_port(config, 0x11, 0x12), 0xc132);
  // 0x40010 * 0x12345 = 0x48d263450; with >> 20 folded in the low 20 bits are 0x67c82; the upper
  // six of them, 0x19, fold onto the lower 14, 0x3c82.
  EXPECT_EQ(udp_source_port(config, 0x40010, 0x12345), 0xfc9b);
  EXPECT_EQ(udp_source_port(config, 0x12345, 0x40010), 0xfc9b) << "the same both ways";
}

// rules: A1.4
TEST(UdpPort, FixedIsOneForAll) {
  const Config config = with(UdpSourcePort::kFixed);
  EXPECT_EQ(udp_source_port(config, 0x11, 0x12), 0xc000);
  EXPECT_EQ(udp_source_port(config, 0x40010, 0x12345), 0xc000);
}

// rules: A1.4
TEST(UdpPort, RandomSpreadsNeighboursOverTheRange) {
  const Config config = with(UdpSourcePort::kRandom);
  std::set<uint16_t> seen;
  for (Qpn local = 0x10; local < 0x10 + 1000; ++local) {
    const uint16_t port = udp_source_port(config, local, 0x77);
    EXPECT_GE(port, 0xc000);
    EXPECT_EQ(port, udp_source_port(config, local, 0x77)) << "constant for a queue pair";
    seen.insert(port);
  }
  // 1000 draws out of 2^14: 970 are expected to differ, with a deviation of about 5.
  EXPECT_GT(seen.size(), 940u);
  EXPECT_NE(udp_source_port(config, 0x10, 0x77),
            udp_source_port(with(UdpSourcePort::kRandom, 2), 0x10, 0x77));
}

}  // namespace
}  // namespace understudy
