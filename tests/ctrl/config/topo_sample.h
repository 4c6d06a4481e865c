// Topology files as NCCL writes them, for tests.
#pragma once

#include <cstdio>
#include <string>

namespace understudy {

inline std::string bus(size_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02zx:00.0", number);
  return text;
}

inline std::string gpu(size_t number, unsigned sm, const std::string& nvlinks,
                       const std::string& speed = "16.0 GT/s PCIe") {
  return "<pci busid=\"" + bus(16 + number) + "\" class=\"0x030200\" link_speed=\"" + speed +
         "\" link_width=\"16\">\n<gpu dev=\"" + std::to_string(number) + "\" sm=\"" +
         std::to_string(sm) + "\" rank=\"" + std::to_string(number) + "\" gdr=\"1\">\n" + nvlinks +
         "</gpu>\n</pci>\n";
}

inline std::string nic(size_t number, const std::string& megabits) {
  return "<pci busid=\"" + bus(64 + number) +
         "\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n<nic>\n<net "
         "name=\"mlx5_" +
         std::to_string(number) + "\" dev=\"" + std::to_string(number) + "\" speed=\"" + megabits +
         "\" port=\"1\" latency=\"0.000000\" guid=\"0x1\" maxconn=\"131072\" gdr=\"1\"/>\n</nic>\n"
         "</pci>\n";
}

inline std::string file_of(const std::string& devices, const std::string& vendor = "GenuineIntel") {
  return "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\" arch=\"x86_64\" vendor=\"" +
         vendor + "\" familyid=\"6\" modelid=\"143\">\n" + devices + "</cpu>\n</system>\n";
}

inline std::string to_switches(unsigned count) {
  return "<nvlink target=\"0000:07:00.0\" count=\"" + std::to_string(count - 2) +
         "\" tclass=\"0x068000\"/>\n<nvlink target=\"0000:08:00.0\" count=\"2\" "
         "tclass=\"0x068000\"/>\n";
}

/// Eight GPUs of `links` NVLinks each to switches, eight NICs.
inline std::string server(unsigned sm, unsigned links) {
  std::string devices;
  for (size_t i = 0; i < 8; ++i) devices += gpu(i, sm, to_switches(links)) + nic(i, "400000");
  return file_of(devices);
}

}  // namespace understudy
