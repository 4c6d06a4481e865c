// Captures of tests in the formats of other programs: pcap and ERF.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/tools/roce_check/capture.h"

namespace understudy {

inline void put(std::vector<uint8_t>& out, uint64_t value, size_t bytes, bool big = false) {
  for (size_t i = 0; i < bytes; ++i) {
    out.push_back(static_cast<uint8_t>(value >> 8 * (big ? bytes - 1 - i : i)));
  }
}

inline constexpr int64_t kCalendarSecond = 1'700'000'000;

/// `unit`: picoseconds of the file's second number.
inline std::vector<uint8_t> pcap(const TestCapture& capture, uint32_t magic, int64_t unit) {
  std::vector<uint8_t> out;
  put(out, magic, 4);
  for (const uint32_t word : {2u | 4u << 16, 0u, 0u, 65535u, 1u}) put(out, word, 4);
  for (const TestFrame& f : capture.frames) {
    put(out, kCalendarSecond, 4);
    put(out, static_cast<uint64_t>(f.at.ps() / unit), 4);
    put(out, f.bytes.size(), 4);
    put(out, f.bytes.size(), 4);
    out.insert(out.end(), f.bytes.begin(), f.bytes.end());
  }
  return out;
}

/// Records as capture cards write them: with FCS, a loss counter, one extension header.
inline std::vector<uint8_t> erf(const TestCapture& capture, uint16_t losses = 0,
                                size_t keep = 65535) {
  std::vector<uint8_t> out;
  for (const TestFrame& f : capture.frames) {
    std::vector<uint8_t> frame = f.bytes;
    frame.insert(frame.end(), 4, 0xaa);
    const size_t on_wire = frame.size();
    frame.resize(std::min(frame.size(), keep));
    const auto fraction = static_cast<uint64_t>(f.at.seconds() * 4294967296.0);
    put(out, static_cast<uint64_t>(kCalendarSecond) << 32 | fraction, 8);
    put(out, 0x82, 1);
    put(out, 4, 1);
    put(out, 16 + 8 + 2 + frame.size(), 2, true);
    put(out, &f == &capture.frames.back() ? losses : 0, 2, true);
    put(out, on_wire, 2, true);
    put(out, 0x0500000000000000, 8, true);
    put(out, 0, 2);
    out.insert(out.end(), frame.begin(), frame.end());
  }
  return out;
}

}  // namespace understudy
