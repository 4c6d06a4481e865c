// Memory of emulated nodes: regions with rkeys, and where payload comes from or goes to.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/pattern.h"
#include "dataplane/rc/answers.h"

namespace understudy {

inline constexpr uint8_t kAccessRemoteWrite = 0x1;
inline constexpr uint8_t kAccessRemoteRead = 0x2;
inline constexpr uint8_t kAccessRemoteAtomic = 0x4;
/// The peer may take the rkey away by SEND with invalidate, as from a fast-registered region.
inline constexpr uint8_t kAccessRemoteInvalidate = 0x8;
inline constexpr uint8_t kAccessRemoteAny = 0xf;
/// The program itself may have data put there that it reads or receives; says nothing to the peer.
inline constexpr uint8_t kAccessLocalWrite = 0x10;

/// Produces payload that exists nowhere as bytes (synthetic or computed when it is sent). Must give
/// the same bytes for the same arguments until the work request completes: retransmission asks
/// again.
class PayloadSource {
 public:
  virtual ~PayloadSource() = default;
  virtual void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const = 0;
};

/// Payload of one packet or one work request.
struct PayloadRef {
  const uint8_t* bytes = nullptr;         ///< copied if set
  const PayloadSource* source = nullptr;  ///< else asked if set; else zeros
  uint64_t cookie = 0;
  uint64_t offset = 0;
  uint32_t region = 0;      ///< of whose bytes it is a part: its index plus one; 0: of none
  uint32_t generation = 0;  ///< of that region

  bool is_zeros() const { return bytes == nullptr && source == nullptr; }
  PayloadRef advanced(uint64_t by) const {
    PayloadRef r = *this;
    r.offset += by;
    return r;
  }
  void write(std::span<uint8_t> out) const {
    if (out.empty()) return;
    if (bytes != nullptr) {
      std::memcpy(out.data(), bytes + offset, out.size());
    } else if (source != nullptr) {
      source->fill(cookie, offset, out);
    } else {
      std::memset(out.data(), 0, out.size());
    }
  }
};

/// Contents that follow from the place alone: whoever reads a part of a region of kind kPattern, in
/// whatever pieces, can tell which bytes must have come.
class PlacePattern final : public PayloadSource {
 public:
  static constexpr uint8_t at(uint64_t place) {
    return static_cast<uint8_t>(splitmix64(place / 8) >> (place % 8 * 8));
  }
  void fill(uint64_t /*cookie*/, uint64_t offset, std::span<uint8_t> out) const override {
    size_t i = 0;
    while (i < out.size()) {  // eight bytes at a time
      const uint64_t place = offset + i;
      uint64_t word = splitmix64(place / 8) >> (place % 8 * 8);
      for (size_t left = 8 - place % 8; left > 0 && i < out.size(); --left, word >>= 8) {
        out[i++] = static_cast<uint8_t>(word);
      }
    }
  }
};
inline const PlacePattern kPlacePattern{};

/// What is behind a region.
enum class RegionKind : uint8_t {
  kDiscard,  ///< nothing: READs give zeros, WRITEs are checked and forgotten
  kPattern,  ///< READs give PlacePattern of the offset in the region, WRITEs are forgotten
  kBacked,   ///< bytes
};

/// A registered range of an emulated node's address space.
struct Region {
  NodeId node = kNoNode;
  uint64_t va = 0;
  uint64_t length = 0;  ///< bytes
  uint8_t access = 0;
  uint8_t* bytes = nullptr;  ///< contents, owned by control; null but for kBacked
  bool valid = false;
  bool invalidated = false;  ///< the peer took the rkey away; the region itself is still there
  bool pattern = false;      ///< where there are no bytes: kPattern
  // Set by RegionTable::add():
  uint32_t number = 0;      ///< index plus one
  uint32_t generation = 0;  ///< how many regions had this index before

  RegionKind kind() const {
    return bytes != nullptr ? RegionKind::kBacked
           : pattern        ? RegionKind::kPattern
                            : RegionKind::kDiscard;
  }
  /// What a READ of the region finds `offset` bytes from its start.
  PayloadRef contents(uint64_t offset) const {
    return {bytes, pattern ? &kPlacePattern : nullptr, 0, offset, number, generation};
  }
  bool covers(uint64_t at, uint64_t size) const {
    return at >= va && size <= length && at - va <= length - size;
  }
};

/// Regions of one shard, and the READs and ATOMICs of them that are remembered. The rkey's upper
/// bits are the index, so lookup is an index; the low byte changes on reuse, so a stale rkey is
/// caught.
class RegionTable {
 public:
  /// Enough for 512 queue pairs with 128 requests each that wait for their answer.
  static constexpr uint32_t kAnswers = 1 << 16;

  explicit RegionTable(size_t capacity, uint32_t answers = kAnswers)
      : regions_(capacity), answers_(answers) {}

  AnswerPool& answers() { return answers_; }

  /// False when that index lies outside the table.
  bool add(uint32_t index, const Region& region) {
    if (index >= regions_.size()) return false;
    const uint32_t generation = regions_[index].generation;
    regions_[index] = region;
    regions_[index].valid = true;
    regions_[index].number = index + 1;
    regions_[index].generation = generation;
    return true;
  }
  void remove(uint32_t index) {
    if (index >= regions_.size()) return;
    regions_[index].valid = false;
    ++regions_[index].generation;
  }
  /// Takes the rkey away by SEND with invalidate; false when `node` has no region of that rkey that
  /// allows it (rule A4.24).
  bool invalidate(Rkey rkey, NodeId node) {
    const Region* region = find(rkey, node);
    if (region == nullptr || (region->access & kAccessRemoteInvalidate) == 0) return false;
    regions_[(rkey >> 8) - 1].invalidated = true;
    return true;
  }
  /// The region at `index`, whether its rkey is still good or not, or null.
  const Region* at(uint32_t index) const {
    return index < regions_.size() && regions_[index].valid ? &regions_[index] : nullptr;
  }
  Rkey rkey(uint32_t index) const { return (index + 1) << 8 | tag(index); }
  /// The region that `rkey` names for `node`, or null (rule A4: remote access error).
  const Region* find(Rkey rkey, NodeId node) const {
    const uint32_t index = (rkey >> 8) - 1;
    if (index >= regions_.size() || tag(index) != (rkey & 0xff)) return nullptr;
    const Region& r = regions_[index];
    return r.valid && !r.invalidated && r.node == node ? &r : nullptr;
  }
  /// False once the region that the payload is a part of has been removed: its bytes may be gone.
  bool holds(const PayloadRef& payload) const {
    return payload.region == 0 || regions_[payload.region - 1].generation == payload.generation;
  }

 private:
  uint8_t tag(uint32_t index) const { return static_cast<uint8_t>(regions_[index].generation); }

  std::vector<Region> regions_;
  AnswerPool answers_;
};

}  // namespace understudy
