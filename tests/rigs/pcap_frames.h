// Frames of recordings in tests/data.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace understudy {

/// Frames of a classic pcap file of this machine's byte order.
inline std::vector<std::vector<uint8_t>> pcap_frames(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<uint8_t> file{std::istreambuf_iterator<char>(in), {}};
  std::vector<std::vector<uint8_t>> out;
  uint32_t magic = 0;
  if (file.size() < 24) return out;
  std::memcpy(&magic, file.data(), 4);
  EXPECT_EQ(magic, 0xa1b2c3d4) << path;
  for (size_t at = 24; at + 16 <= file.size();) {
    uint32_t captured, original;
    std::memcpy(&captured, file.data() + at + 8, 4);
    std::memcpy(&original, file.data() + at + 12, 4);
    at += 16;
    if (captured > file.size() - at) break;
    if (captured == original) out.emplace_back(file.data() + at, file.data() + at + captured);
    at += captured;
  }
  return out;
}

}  // namespace understudy
