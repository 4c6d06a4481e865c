#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"

#include <algorithm>
#include <span>

namespace understudy {
namespace {

constexpr NcclVersion kTwoSums{26};

/// DJB2a of signed characters.
uint64_t hash_of_characters(std::span<const uint8_t> bytes) {
  uint64_t hash = 5381;
  for (const uint8_t byte : bytes) {
    hash = hash * 33 ^ static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(byte)));
  }
  return hash;
}

/// Two sums that are mixed before every eight bytes.
uint64_t hash_of_words(std::span<const uint8_t> bytes) {
  uint64_t a = 1 ^ bytes.size(), b = 1;
  for (size_t at = 0; at < bytes.size(); at += 8) {
    a += b;
    b ^= a;
    a = (a ^ a >> 31) * 0x9de62bbc8cef3ce3;
    b = (b ^ b >> 32) * 0x485cd6311b599e79;
    uint64_t word = 0;
    for (size_t i = 0; i < std::min<size_t>(8, bytes.size() - at); ++i) {
      word |= uint64_t{bytes[at + i]} << (8 * i);
    }
    a += word;
  }
  const uint64_t mixed = (a ^ a >> 31) * 0xbac3bd562846de6b + b;
  return (mixed ^ mixed >> 32) * 0x995a187a14e7b445;
}

}  // namespace

uint64_t communicator_hash(const NcclUniqueId& id, NcclVersion version) {
  const UniqueIdBytes bytes = unique_id_bytes(id);
  return version < kTwoSums ? hash_of_characters(bytes) : hash_of_words(bytes);
}

}  // namespace understudy
