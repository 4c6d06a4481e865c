// Recorded exchanges of tests/data/peers, and the means to run a peer against one.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "ctrl/peers/perftest/perftest_wire.h"
#include "ctrl/peers/service.h"

namespace understudy {

struct RecordedWrite {
  bool from_client = false;
  std::vector<uint8_t> bytes;
};

inline std::vector<RecordedWrite> load_recording(const std::string& name) {
  const std::string path = std::string(UNDERSTUDY_TEST_DATA) + "/peers/" + name + ".txt";
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<RecordedWrite> writes;
  std::string side, hex;
  while (file >> side >> hex) {
    RecordedWrite write;
    write.from_client = side == "C";
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
      const auto byte = parse_hex(std::string_view(hex).substr(i, 2));
      write.bytes.push_back(static_cast<uint8_t>(byte.value_or(0)));
    }
    writes.push_back(write);
  }
  return writes;
}

/// The recordings' server.
inline Service recorded_service(ServiceKind kind) {
  Service service;
  service.node = "w0";
  service.v4 = IpAddress::parse("10.9.0.1");
  service.v6 = IpAddress::parse("::1");
  service.port = 18515;
  service.kind = kind;
  return service;
}

}  // namespace understudy
