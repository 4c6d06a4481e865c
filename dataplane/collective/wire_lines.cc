#include "dataplane/collective/wire_lines.h"

#include <algorithm>

namespace understudy {
namespace {

// LL128: a warp writes a slice as four rows of one 16-byte vector a thread. Every eighth thread's
// vector ends with a flag, so that its own data of an even row take the halves of two rows.
constexpr uint32_t kThreads = 32, kVector = 16, kRowWords = kThreads * kVector / 8;
constexpr uint32_t kFlagEvery = 8;                                       // threads
constexpr uint32_t kPairVectors = kThreads + kThreads / kFlagEvery * 7;  // data of two rows
constexpr uint32_t kSliceWords = 240;

constexpr std::array<uint8_t, kSliceWords> word_places() {
  std::array<uint8_t, kSliceWords> places{};
  for (uint32_t word = 0; word < kSliceWords; ++word) {
    const uint32_t pair = word / 2 / kPairVectors, vector = word / 2 % kPairVectors;
    const uint32_t half = word % 2;
    const bool second = vector >= kThreads;
    const uint32_t in_row = vector - kThreads;
    const uint32_t thread = second ? in_row + in_row / (kFlagEvery - 1) : vector;
    const bool flagged = thread % kFlagEvery == kFlagEvery - 1;
    const uint32_t row = 2 * pair + (second || (flagged && half == 1) ? 1 : 0);
    places[word] = static_cast<uint8_t>(row * kRowWords + thread * 2 + (flagged ? 0 : half));
  }
  return places;
}
constexpr std::array<uint8_t, kSliceWords> kWordPlaces = word_places();

}  // namespace

/// Of a unit of data, on the wire.
uint64_t WireLines::place(uint64_t number) const {
  if (protocol_ == Protocol::kLL) return number * 8;
  return number / kSliceWords * kMostSliceWire + uint64_t{kWordPlaces[number % kSliceWords]} * 8;
}

void WireLines::read(const uint8_t* wire, uint64_t from, std::span<uint8_t> out) const {
  if (plain()) {
    std::copy_n(wire + from, out.size(), out.begin());
    return;
  }
  for (size_t done = 0; done < out.size();) {
    const uint64_t skip = (from + done) % unit();
    const size_t count = std::min<uint64_t>(unit() - skip, out.size() - done);
    std::memcpy(out.data() + done, wire + place((from + done) / unit()) + skip, count);
    done += count;
  }
}

uint64_t WireLines::wrong_flags(const uint8_t* wire, uint64_t bytes, uint64_t flag) const {
  if (plain()) return 0;
  const uint32_t every = protocol_ == Protocol::kLL ? 8 : 128;
  uint64_t wrong = 0;
  for (uint64_t end = every; end <= bytes; end += every) {
    wrong += std::memcmp(wire + end - unit(), &flag, unit()) != 0 ? 1 : 0;
  }
  return wrong;
}

void WireLines::write_all(std::span<const uint8_t> data, uint64_t flag,
                          std::span<uint8_t> out) const {
  if (plain()) {
    std::ranges::copy(data, out.begin());
    return;
  }
  write(data.size(), flag, 0, out, [&](uint64_t from, std::span<uint8_t> part) {
    std::memcpy(part.data(), data.data() + from, part.size());
  });
}

void WireLines::make_slice(std::span<const uint8_t> data, uint64_t flag,
                           std::span<uint8_t> wire) const {
  const uint64_t units = slice_data() / unit();
  for (uint64_t u = 0; u < units; ++u) {
    std::memcpy(wire.data() + place(u), data.data() + u * unit(), unit());
  }
  const uint32_t every = protocol_ == Protocol::kLL ? 8 : 128;
  for (uint64_t end = every; end <= slice_wire(); end += every) {
    std::memcpy(wire.data() + end - unit(), &flag, unit());
  }
}

}  // namespace understudy
