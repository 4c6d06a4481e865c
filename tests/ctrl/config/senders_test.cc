// How queue pairs of services, clients and jobs send, and what tells of congestion: what is read,
// and what is refused with its line.
#include "tests/ctrl/config/cases.h"

namespace understudy {
namespace {

/// The sample with `keys` in the first table of this kind.
std::string with_keys(const std::string& table, const std::string& keys) {
  std::string text = kSampleConfig;
  const std::string head = "[[" + table + "]]\n";
  const size_t at = text.find(head);
  EXPECT_NE(at, std::string::npos) << table;
  return text.insert(at + head.size(), keys);
}

Config good(const std::string& text) {
  const ConfigResult result = load_config_text(text, "f");
  EXPECT_TRUE(result) << describe(result.error());
  return result ? *result : Config();
}

TEST(ConfigSenders, WithoutKeysNothingIsEcnCapable) {
  const Config config = good(kSampleConfig);
  EXPECT_EQ(config.services.at(0).sender.traffic_class, 0);
  EXPECT_EQ(config.clients.at(0).sender.traffic_class, 0);
  EXPECT_EQ(config.jobs.at(0).sender.traffic_class, 0);
  EXPECT_TRUE(config.fabric.cnp.on);
  EXPECT_EQ(config.fabric.cnp.interval, Duration::us(4));
  EXPECT_EQ(config.fabric.cnp.dscp, 48);
  EXPECT_EQ(config.fabric.cnp.pcp, 6);
}

TEST(ConfigSenders, TheTrafficClassIsRead) {
  EXPECT_EQ(good(with_keys("service", "traffic_class = 106\n")).services.at(0).sender.traffic_class,
            106);
  EXPECT_EQ(good(with_keys("client", "traffic_class = 253\n")).clients.at(0).sender.traffic_class,
            253);
  EXPECT_EQ(good(with_keys("job", "traffic_class = 2\n")).jobs.at(0).sender.traffic_class, 2);
}

const char kControls[] =
    "[[control]]\nname = \"a\"\nlaw = \"dcqcn\"\n[[control]]\nname = \"b\"\nlaw = \"timely\"\n";

TEST(ConfigSenders, TheControlIsReadAndItsUsersHaveNames) {
  std::string text = with_keys("service", "control = \"b\"\n");
  text.insert(text.find("[[prefix]]"), kControls);
  const Config config = good(text);
  EXPECT_EQ(config.services.at(0).sender.control, 1u);
  ASSERT_EQ(config.control_users.size(), 1u);
  const ServiceConfig& service = config.services[0];
  EXPECT_EQ(config.control_users[0].name,
            "service " + config.nodes[service.node].name + ":" + std::to_string(service.port));
  EXPECT_EQ(config.control_users[0].control, 1u);
  EXPECT_EQ(config.jobs.at(0).sender.control, kNoControl);
}

TEST(ConfigSenders, LawsThatRoceCannotCarryAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"law = \"hpcc\"\n", "telemetry"},
      {"law = \"dctcp\"\n", "echo marks"},
      {"law = \"dcqcn\"\necho = \"ack\"\n", "echo marks"},
      {"law = \"swift\"\n", ""},
      {"law = \"none\"\nwindow = \"bdp\"\n", ""},
  };
  for (const auto& [law, words] : cases) {
    for (const char* table : {"service", "client", "job"}) {
      SCOPED_TRACE(std::string(table) + " " + law);
      std::string text = with_keys(table, "control = \"c\"\n");
      text.insert(text.find("[[prefix]]"), std::string("[[control]]\nname = \"c\"\n") + law);
      const std::string errors = errors_of(text);
      EXPECT_EQ(errors.empty(), std::string(words).empty()) << errors;
      EXPECT_NE(errors.find(words), std::string::npos) << errors;
      if (!errors.empty()) {
        EXPECT_NE(errors.find(std::string(table) + ".control"), std::string::npos) << errors;
      }
    }
  }
  EXPECT_NE(errors_of(with_keys("job", "control = \"nobody\"\n")).find("no [[control]]"),
            std::string::npos);
}

TEST(ConfigSenders, ALinkWithoutARateCannotBeControlled) {
  std::string text = with_keys("job", "control = \"a\"\n");
  text.insert(text.find("[[prefix]]"), kControls);
  const size_t rate = text.find("rate = \"", text.find("[[node]]"));
  text.replace(rate, text.find('"', rate + 8) + 1 - rate, "rate = \"unlimited\"");
  const std::string errors = errors_of(text);
  EXPECT_NE(errors.find("job.control"), std::string::npos) << errors;
  EXPECT_NE(errors.find("is unlimited"), std::string::npos) << errors;
}

TEST(ConfigSenders, NotificationIsRead) {
  std::string text = kSampleConfig;
  const size_t at = text.find("[fabric]\n");
  ASSERT_NE(at, std::string::npos);
  text.insert(at + 9, "cnp = false\ncnp_interval = \"50us\"\ncnp_dscp = 8\ncnp_pcp = 0\n");
  const CnpConfig cnp = good(text).fabric.cnp;
  EXPECT_FALSE(cnp.on);
  EXPECT_EQ(cnp.interval, Duration::us(50));
  EXPECT_EQ(cnp.dscp, 8);
  EXPECT_EQ(cnp.pcp, 0);
}

TEST(ConfigSenders, WhatIsRefused) {
  for (const char* table : {"service", "client", "job"}) {
    const std::string key = std::string(table) + ".traffic_class";
    EXPECT_NE(errors_of(with_keys(table, "traffic_class = 107\n")).find(key), std::string::npos);
    EXPECT_NE(errors_of(with_keys(table, "traffic_class = 107\n")).find("ECN 3 is for switches"),
              std::string::npos);
    EXPECT_NE(errors_of(with_keys(table, "traffic_class = 256\n")).find("0 to 255"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace understudy
