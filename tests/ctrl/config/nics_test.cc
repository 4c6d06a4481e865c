// [[nic]], and the nodes that name one.
#include <gtest/gtest.h>

#include "ctrl/config/presets/nic_preset.h"
#include "ctrl/config/read/load.h"

namespace understudy {
namespace {

std::string text_of(const std::string& nic, const std::string& node = "nic = \"n\"\n") {
  return "format = 1\n[[nic]]\nname = \"n\"\n" + nic +
         "[[prefix]]\nnic = 0\nv4 = \"10.9.0.0/24\"\n[[node]]\nname = \"w\"\ncount = 2\n" + node +
         "link = { rate = \"100Gbit/s\", latency = \"1us\" }\n";
}

NicLimits limits_of(const std::string& nic) {
  const ConfigResult config = load_config_text(text_of(nic), "nic.toml");
  EXPECT_TRUE(config) << (config ? "" : describe(config.error()));
  return config ? config->nodes[1].nics[0].limits : NicLimits();
}

TEST(Nics, WhatIsNotSaidIsIdeal) { EXPECT_FALSE(limits_of("").any()); }

TEST(Nics, AllKeysAreRead) {
  const NicLimits nic = limits_of(
      "packets_per_second = 200_000_000\npcie = { rate = \"100Gbit/s\", latency = \"150ns\" }\n"
      "completion = \"50ns\"\nack_delay = \"120ns\"\nack_every = 4\n");
  EXPECT_EQ(nic.packets.least, Duration::ns(5));
  EXPECT_EQ(nic.packets.pcie, Rate::bits_per_second(100'000'000'000));
  EXPECT_EQ(nic.lead, Duration::ns(3 * 150))
      << "a doorbell, and the payload's fetch there and back";
  EXPECT_EQ(nic.tail, Duration::ns(150 + 50));
  EXPECT_EQ(nic.ack_delay, Duration::ns(120));
  EXPECT_EQ(nic.ack_every, 4);
}

TEST(Nics, AcknowledgementsMayQueueBehindData) {
  EXPECT_FALSE(limits_of("acks = \"first\"\n").acks_wait());
  NicLimits nic = limits_of("acks = \"behind_data\"\n");
  EXPECT_EQ(nic.ahead, 64);
  EXPECT_EQ(nic.again, 63);
  nic = limits_of("acks = \"behind_data\"\nahead = 8\n");
  EXPECT_EQ(nic.ahead, 8);
  EXPECT_EQ(nic.again, 7);
  nic = limits_of("acks = \"behind_data\"\nahead = 8\nagain = 0\n");
  EXPECT_EQ(nic.again, 0);
  EXPECT_TRUE(nic.any());
  nic = limits_of("preset = \"rdma_rxe\"\n");
  EXPECT_EQ(nic.ahead, 64);
  EXPECT_EQ(nic.again, 14);
  EXPECT_EQ(nic.ack_every, 66);
  EXPECT_FALSE(limits_of("preset = \"rdma_rxe\"\nacks = \"first\"\n").acks_wait());
}

// A reference node plays that, and nothing else.
TEST(Nics, AReferenceNodeMayHaveOneThatQueues) {
  const ConfigResult config = load_config_text(
      text_of("acks = \"behind_data\"\n", "nic = \"n\"\nreal = true\n"), "nic.toml");
  ASSERT_TRUE(config) << describe(config.error());
  EXPECT_TRUE(config->nodes[0].nics[0].limits.acks_wait());
}

TEST(Nics, APresetIsWhereTheyStart) {
  for (const NicPreset& preset : nic_presets()) {
    if (preset.ahead != 0) continue;  // of a program, which has no limits of hardware
    const std::string key = "preset = \"" + std::string(preset.name) + "\"\n";
    EXPECT_TRUE(limits_of(key).packets.any()) << preset.name;
    EXPECT_FALSE(preset.source.empty());
    const NicLimits slower = limits_of(key + "packets_per_second = 1000\n");
    EXPECT_EQ(slower.packets.least, Duration::ms(1)) << preset.name;
    EXPECT_EQ(slower.packets.pcie, limits_of(key).packets.pcie) << preset.name;
  }
}

TEST(Nics, WrongOnesAreNamed) {
  const std::pair<std::string, std::vector<const char*>> cases[] = {
      {text_of("preset = \"connectx-66\"\n"), {"nic.toml:4: nic.preset", "did you mean"}},
      {text_of("packets_per_second = 0\n"), {"nic.toml:4: nic.packets_per_second"}},
      {text_of("pcie = { lanes = 16 }\n"), {"nic.toml:4: nic.pcie.lanes"}},
      {text_of("ack_delay = \"1us\"\n"), {"nic.toml:4: nic.ack_delay", "\"1us\"", "at most"}},
      {text_of("ack_every = 0\n"), {"nic.toml:4: nic.ack_every"}},
      {text_of("acks = \"last\"\n"), {"nic.toml:4: nic.acks", "behind_data"}},
      {text_of("ahead = 8\n"), {"nic.toml:4: nic.ahead", "acks = \"behind_data\""}},
      {text_of("acks = \"first\"\nagain = 8\n"), {"nic.toml:5: nic.again", "behind_data"}},
      {text_of("acks = \"behind_data\"\nahead = 8\nagain = 8\n"),
       {"nic.toml:6: nic.again", "less than ahead, 8"}},
      {text_of("acks = \"behind_data\"\ncompletion = \"1us\"\n", "nic = \"n\"\nreal = true\n"),
       {"nic.toml:12: node.nic", "reference node"}},
      {text_of("[[nic]]\nname = \"n\"\n"), {"nic.toml:5: nic.name", "line 2"}},
      {text_of("", "nic = \"m\"\n"), {"nic.toml:10: node.nic", "no [[nic]] of this name"}},
      {text_of("", "nic = \"n\"\nreal = true\n"), {"nic.toml:10: node.nic", "real node"}},
  };
  for (const auto& [text, words] : cases) {
    const ConfigResult config = load_config_text(text, "nic.toml");
    ASSERT_FALSE(config) << text;
    for (const char* word : words) {
      EXPECT_NE(describe(config.error()).find(word), std::string::npos)
          << word << " is not in: " << describe(config.error());
    }
  }
}

}  // namespace
}  // namespace understudy
