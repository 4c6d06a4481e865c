// Packets inside a shard: fixed slots, allocated once. Only metadata waits in the fabric; a slot's
// buffer is touched when contents are needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include "dataplane/base/big_array.h"
#include "dataplane/base/zero_memory.h"
#include "dataplane/fabric/link.h"
#include "dataplane/rc/types.h"
#include "dataplane/wire/parse.h"

namespace understudy {

/// Room for an Ethernet frame with path MTU 4096 and every header, or a jumbo frame of 9018.
inline constexpr uint32_t kPacketBufferBytes = 9216;

enum class PacketKind : uint8_t {
  kFromReal,  ///< RoCE packet on its way to an emulated queue pair: `view`, payload in the buffer
  kTrain,     ///< such packets, one behind the other: see packet_train.h
  kToReal,    ///< RoCE packet to build at departure: `out`, `addressing`
  kRaw,       ///< finished frame in the buffer, on its way to the real node
  kRawIn,     ///< a frame of the real node that crosses the fabric as it is (ICMP echo)
  kThrough,   ///< finished frame in the buffer, from one real node to another
};

struct Packet {
  PacketKind kind = PacketKind::kRaw;
  bool departs = false;              ///< kToReal: last packet of work request `id`
  bool damaged = false;              ///< kToReal: a fault changes one bit, where `damage` says
  bool good_icrc = false;            ///< ... before the ICRC is computed
  bool ce = false;                   ///< marked by the fabric
  bool crossed = false;              ///< kThrough: it has come out of the fabric
  uint8_t tos = 0;                   ///< DSCP and ECN, as received or as sent
  uint8_t priority = 0;              ///< that switches see in it
  uint16_t udp_src = 0;              ///< by which switches tell flows apart
  std::optional<uint16_t> vlan_tci;  ///< of its outermost tag
  uint32_t wire_bytes = 0;           ///< frame and Ethernet overhead
  uint32_t frame_bytes = 0;
  uint32_t link = 0;     ///< next link to pass
  uint32_t node = 0;     ///< the emulated end, by position in the node table; kThrough: from there
  uint32_t real = 0;     ///< the real end; kThrough: to there
  Time head, tail;       ///< when its first and last byte come in at `link`
  Time due;              ///< kToReal: when it is handed to the device
  Duration uncertainty;  ///< kFromReal, kTrain: of its arrival
  Qpn qpn = 0;           ///< of the emulated end; kThrough: of the one it goes to
  uint32_t owner = 0;    ///< generation of that queue pair's slot; see belongs()
  uint64_t id = 0;
  uint64_t turn = 0;  ///< kToReal, kRaw: when a NIC was handed it that takes packets ahead
  uint64_t damage = 0;
  uint32_t before = 0;  ///< kTrain: packets in front of the last, which `view` is ...
  uint32_t before_bytes = 0, before_wire_bytes = 0;  ///< ... each with this payload
  RoceView view;
  OutPacket out;
  RoceAddressing addressing;

  /// What it stands for.
  uint32_t packets() const { return kind == PacketKind::kTrain ? before + 1 : 1; }
};

/// Who takes a packet. What goes out can wait, what comes in would be lost: beyond a sixteenth of
/// all the former leaves the last quarter to the latter. So a peer that makes us send much loses
/// nobody's packets, and one that sends much keeps nobody from sending.
enum class PacketSide : uint8_t { kInbound, kOutbound };

class PacketPool {
 public:
  explicit PacketPool(uint32_t capacity)
      : packets_(capacity),
        sides_(capacity),
        next_(capacity, kNoPacket),
        buffers_(static_cast<size_t>(capacity) * kPacketBufferBytes) {
    if (buffers_.bytes() == nullptr && capacity > 0) throw std::bad_alloc();
    free_.reserve(capacity);
    for (uint32_t i = capacity; i-- > 0;) free_.push_back(i);
  }

  /// A slot, or kNoPacket when this side can have no more.
  uint32_t take(PacketSide side) {
    if (available(side) == 0) return kNoPacket;
    const uint32_t i = free_.back();
    free_.pop_back();
    sides_[i] = side;
    outbound_ += side == PacketSide::kOutbound ? 1 : 0;
    return i;
  }
  void release(uint32_t i) {
    outbound_ -= sides_[i] == PacketSide::kOutbound ? 1 : 0;
    free_.push_back(i);
  }
  /// How many a side can take now.
  uint32_t available(PacketSide side) const {
    const auto free = static_cast<uint32_t>(free_.size());
    const uint32_t own = std::min(free, less(capacity() / 16, outbound_));
    if (side == PacketSide::kInbound) return free - own;
    return std::max(own, less(free, capacity() / 4));
  }
  /// In front of one node's link a flood never takes the room of all: no more than half of it, and,
  /// where several are flooded, a few times what is left free, so that there is always some for
  /// another (dynamic thresholds: Choudhury, Hahne, 1998).
  uint64_t most_in_one_queue() const {
    return std::min<uint64_t>(capacity() / 2, kQueueShare * available(PacketSide::kInbound) + 1);
  }
  Packet& operator[](uint32_t i) { return packets_[i]; }
  const Packet& operator[](uint32_t i) const { return packets_[i]; }
  /// What links look at of a packet, and what its node does.
  void prefetch(uint32_t i) const {
    const auto* at = reinterpret_cast<const uint8_t*>(&packets_[i]);
    __builtin_prefetch(at);
    __builtin_prefetch(at + 64);
    __builtin_prefetch(at + 128);
  }
  uint8_t* buffer(uint32_t i) {
    return buffers_.bytes() + static_cast<size_t>(i) * kPacketBufferBytes;
  }
  uint32_t* links() { return next_.data(); }
  uint32_t capacity() const { return static_cast<uint32_t>(packets_.size()); }
  bool half_free() const { return free_.size() >= packets_.size() / 2; }
  bool all_free() const { return free_.size() == packets_.size(); }

 private:
  /// In front of an emulated node's link so many may wait for each packet that is free.
  static constexpr uint64_t kQueueShare = 8;

  static uint32_t less(uint32_t a, uint32_t b) { return a > b ? a - b : 0; }

  BigArray<Packet> packets_;
  std::vector<PacketSide> sides_;
  uint32_t outbound_ = 0;       ///< how many are taken by that side
  std::vector<uint32_t> next_;  ///< intrusive FIFO of the link a packet waits at
  std::vector<uint32_t> free_;
  ZeroMemory buffers_;
};

/// FIFO of packets of one pool; never holds more than the pool has.
class PacketFifo {
 public:
  explicit PacketFifo(uint32_t capacity) : ring_(capacity) {}
  bool empty() const { return count_ == 0; }
  uint32_t front() const { return ring_[first_]; }
  void push(uint32_t packet) { ring_[(first_ + count_++) % ring_.size()] = packet; }
  void pop() {
    first_ = (first_ + 1) % ring_.size();
    --count_;
  }

 private:
  std::vector<uint32_t> ring_;
  size_t first_ = 0, count_ = 0;
};

}  // namespace understudy
