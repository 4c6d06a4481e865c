// How the data of a message lie on the wire (docs/nccl 3.14): Simple as they are; LL four bytes
// at a time, a flag of four behind each; LL128 eight bytes at a time, a flag of eight at the end of
// each 128, in slices that one warp writes, whose words are not in the order of the data.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "collective_model/schedule/schedule.h"

namespace understudy {

class WireLines {
 public:
  explicit WireLines(Protocol protocol) : protocol_(protocol) {}

  /// Whether data lie as they are.
  bool plain() const { return protocol_ == Protocol::kSimple; }

  /// The data from byte `from` on of a message that lies at `wire`.
  void read(const uint8_t* wire, uint64_t from, std::span<uint8_t> out) const;
  /// Of a message that takes `bytes` at `wire`: flags that are not `flag`.
  uint64_t wrong_flags(const uint8_t* wire, uint64_t bytes, uint64_t flag) const;
  /// Writes a whole message of these data to `out`.
  void write_all(std::span<const uint8_t> data, uint64_t flag, std::span<uint8_t> out) const;
  /// What lies on the wire from byte `at` on of a message of `bytes` data. data(from, out) fills in
  /// data of it. Behind the last ones come zeros.
  template <typename Data>
  void write(uint64_t bytes, uint64_t flag, uint64_t at, std::span<uint8_t> out, Data data) const {
    std::array<uint8_t, kMostSliceWire> rooms, lines;
    const std::span<uint8_t> room(rooms.data(), slice_wire()), line(lines.data(), slice_wire());
    while (!out.empty()) {
      const uint64_t slice = at / slice_wire(), skip = at % slice_wire();
      const uint64_t first = slice * slice_data();
      const uint64_t here = first < bytes ? std::min(slice_data(), bytes - first) : 0;
      std::ranges::fill(room, uint8_t{0});
      if (here > 0) data(first, room.first(here));
      make_slice(room, flag, line);
      const size_t count = std::min<uint64_t>(slice_wire() - skip, out.size());
      std::memcpy(out.data(), line.data() + skip, count);
      out = out.subspan(count);
      at += count;
    }
  }

 private:
  // What is made together: a warp's slice of LL128. LL has lines of eight bytes; a packet of any path
  // MTU has whole slices of it.
  static constexpr uint64_t kMostSliceWire = 2048;
  uint64_t slice_wire() const { return protocol_ == Protocol::kLL ? 256 : kMostSliceWire; }
  uint64_t slice_data() const { return protocol_ == Protocol::kLL ? 128 : 1920; }
  uint32_t unit() const { return protocol_ == Protocol::kLL ? 4 : 8; }
  uint64_t place(uint64_t unit_number) const;
  void make_slice(std::span<const uint8_t> data, uint64_t flag, std::span<uint8_t> wire) const;

  Protocol protocol_;
};

}  // namespace understudy
