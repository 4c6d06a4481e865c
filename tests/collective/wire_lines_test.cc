// Lines of LL and LL128 against what the threads of a warp do, one by one (docs/nccl 3.14).
#include "dataplane/collective/wire_lines.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace understudy {
namespace {

std::vector<uint8_t> data_of(size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> data(bytes);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  return data;
}

std::vector<uint8_t> written(Protocol protocol, const std::vector<uint8_t>& data, uint64_t flag,
                             uint64_t at, size_t bytes) {
  std::vector<uint8_t> out(bytes, 0xaa);
  WireLines(protocol).write(data.size(), flag, at, out,
                            [&](uint64_t from, std::span<uint8_t> part) {
                              ASSERT_LE(from + part.size(), data.size());
                              std::memcpy(part.data(), data.data() + from, part.size());
                            });
  return out;
}

/// LL128, as a warp's threads load vectors into registers, move halves, and store rows.
std::vector<uint8_t> by_threads(const std::vector<uint8_t>& data, uint64_t flag) {
  const size_t slices = (data.size() + 1919) / 1920;
  std::vector<uint8_t> padded = data, wire(slices * 2048);
  padded.resize(slices * 1920);
  for (size_t slice = 0; slice < slices; ++slice) {
    for (int thread = 0; thread < 32; ++thread) {
      const bool flags = thread % 8 == 7;
      uint64_t registers[8] = {};
      for (int g = 0; g < 4; ++g) {
        const int vector = g * 32 - 4 * (g / 2) + thread - (g % 2) * (thread / 8);
        if (flags && g % 2 == 1) continue;
        std::memcpy(&registers[2 * g],
                    padded.data() + slice * 1920 + static_cast<size_t>(vector) * 16, 16);
      }
      if (flags) {
        registers[2] = registers[1];
        registers[6] = registers[5];
      }
      for (int g = 0; g < 4; ++g) {
        const uint64_t second = flags ? flag : registers[2 * g + 1];
        uint8_t* at = wire.data() + slice * 2048 + static_cast<size_t>(g * 512 + thread * 16);
        std::memcpy(at, &registers[2 * g], 8);
        std::memcpy(at + 8, &second, 8);
      }
    }
  }
  return wire;
}

TEST(WireLines, OfLl128AreWhatTheThreadsWrite) {
  for (const size_t bytes : {8u, 120u, 500u, 1920u, 1928u, 5000u, 38400u}) {
    const auto data = data_of(bytes, static_cast<unsigned>(bytes));
    const auto right = by_threads(data, 77);
    EXPECT_EQ(written(Protocol::kLL128, data, 77, 0, right.size()), right) << bytes;
  }
}

TEST(WireLines, OfLlAreWordsWithFlags) {
  const auto data = data_of(20, 1);
  const auto wire = written(Protocol::kLL, data, 0x1234567, 0, 48);
  for (size_t word = 0; word < 6; ++word) {
    uint32_t value = 0, right = 0, flag = 0;
    std::memcpy(&value, wire.data() + word * 8, 4);
    std::memcpy(&flag, wire.data() + word * 8 + 4, 4);
    if (word < 5) std::memcpy(&right, data.data() + word * 4, 4);
    EXPECT_EQ(value, right) << word;
    EXPECT_EQ(flag, 0x1234567u) << word;
  }
}

TEST(WireLines, PiecesAreThoseOfTheWholeAndAreReadBack) {
  std::mt19937 random(4);
  for (const Protocol protocol : {Protocol::kSimple, Protocol::kLL, Protocol::kLL128}) {
    for (int i = 0; i < 200; ++i) {
      const size_t bytes = 1 + random() % 9000;
      const auto data = data_of(bytes, static_cast<unsigned>(i));
      const WireLines lines(protocol);
      const size_t all = protocol == Protocol::kSimple ? bytes
                         : protocol == Protocol::kLL   ? (bytes + 7) / 8 * 16
                                                       : (bytes + 1919) / 1920 * 2048;
      auto wire = protocol == Protocol::kSimple ? data : written(protocol, data, 5, 0, all);
      if (protocol != Protocol::kSimple) {
        const size_t at = random() % all, size = 1 + random() % (all - at);
        const auto piece = written(protocol, data, 5, at, size);
        ASSERT_TRUE(
            std::equal(piece.begin(), piece.end(), wire.begin() + static_cast<ptrdiff_t>(at)));
        EXPECT_EQ(lines.wrong_flags(wire.data(), all, 5), 0u);
        EXPECT_EQ(lines.wrong_flags(wire.data(), all, 6),
                  all / (protocol == Protocol::kLL ? 8 : 128));
      }
      const size_t from = random() % bytes;
      std::vector<uint8_t> back(1 + random() % (bytes - from));
      lines.read(wire.data(), from, back);
      ASSERT_TRUE(
          std::equal(back.begin(), back.end(), data.begin() + static_cast<ptrdiff_t>(from)));
    }
  }
}

}  // namespace
}  // namespace understudy
