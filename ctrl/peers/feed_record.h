// What the profiler plugin on the GPU node tells of each operation that NCCL starts: one record of
// 128 bytes on a TCP connection to an emulated node. Integers are little-endian, texts end with a
// zero byte and are NCCL's own words ("AllReduce", "ncclFloat32", "RING", "SIMPLE"). Plain C++
// without the standard library's run time: the plugin lives in a process that is not ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace understudy {

enum class FeedKind : uint8_t { kCollective = 1, kPointToPoint = 2 };

struct FeedRecord {
  static constexpr size_t kBytes = 128;
  static constexpr char kMagic[8] = {'u', 's', 't', 'u', 'd', 'y', 'F', '1'};
  static constexpr size_t kText = 16;
  static constexpr uint8_t kOldest = 1, kNewest = 5;  ///< versions of the profiler's interface

  FeedKind kind = FeedKind::kCollective;
  uint8_t version = kNewest;  ///< of the profiler's interface that NCCL took
  uint8_t channels = 0;       ///< 0: not told (point to point up to version 3)
  uint8_t warps = 0;
  uint32_t rank = 0;          ///< who tells
  uint64_t communicator = 0;  ///< NCCL's hash; 0: not told
  uint64_t sequence = 0;      ///< of collectives: counts those of this function, from 0
  uint64_t count = 0;         ///< elements, as in the call
  int32_t other = 0;          ///< root of a collective, else the peer
  uint32_t dropped = 0;       ///< records that could not be sent before this one
  /// What NCCL launches together, by one kernel, has one number, which differs from that before it;
  /// 0: not told, it is alone.
  uint32_t group = 0;
  uint8_t last = 0;  ///< 1: of its group
  char function[kText] = {};
  char type[kText] = {};
  char algorithm[kText] = {};
  char protocol[kText] = {};

  void encode(std::span<uint8_t, kBytes> out) const {
    std::memset(out.data(), 0, kBytes);
    std::memcpy(out.data(), kMagic, 8);
    out[8] = static_cast<uint8_t>(kind);
    out[9] = version;
    out[10] = channels;
    out[11] = warps;
    put(out.data() + 12, rank, 4);
    put(out.data() + 16, communicator, 8);
    put(out.data() + 24, sequence, 8);
    put(out.data() + 32, count, 8);
    put(out.data() + 40, static_cast<uint32_t>(other), 4);
    put(out.data() + 44, dropped, 4);
    std::memcpy(out.data() + 48, function, kText);
    std::memcpy(out.data() + 64, type, kText);
    std::memcpy(out.data() + 80, algorithm, kText);
    std::memcpy(out.data() + 96, protocol, kText);
    put(out.data() + 112, group, 4);
    out[116] = last;
  }
  /// Takes bytes as they are; FeedDecoder judges them.
  static FeedRecord decode(std::span<const uint8_t, kBytes> in) {
    FeedRecord r;
    r.kind = static_cast<FeedKind>(in[8]);
    r.version = in[9];
    r.channels = in[10];
    r.warps = in[11];
    r.rank = static_cast<uint32_t>(get(in.data() + 12, 4));
    r.communicator = get(in.data() + 16, 8);
    r.sequence = get(in.data() + 24, 8);
    r.count = get(in.data() + 32, 8);
    r.other = static_cast<int32_t>(get(in.data() + 40, 4));
    r.dropped = static_cast<uint32_t>(get(in.data() + 44, 4));
    std::memcpy(r.function, in.data() + 48, kText);
    std::memcpy(r.type, in.data() + 64, kText);
    std::memcpy(r.algorithm, in.data() + 80, kText);
    std::memcpy(r.protocol, in.data() + 96, kText);
    r.group = static_cast<uint32_t>(get(in.data() + 112, 4));
    r.last = in[116];
    return r;
  }
  /// Copies a text, cut to what fits; null is empty.
  static void set(char (&to)[kText], const char* text) {
    size_t i = 0;
    for (; text != nullptr && text[i] != '\0' && i + 1 < kText; ++i) to[i] = text[i];
    std::memset(to + i, 0, kText - i);
  }

 private:
  static void put(uint8_t* out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
  }
  static uint64_t get(const uint8_t* in, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= uint64_t{in[i]} << (8 * i);
    return value;
  }
};

}  // namespace understudy
