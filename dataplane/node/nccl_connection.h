// NCCL's data phase over one connection, that is one direction of one channel between two
// neighbours (nccl-wire 3.1 to 3.4, NCCL 2.24 to 2.29): the receiver writes credits (CTS entries)
// into the sender's FIFO, the sender answers each with one RDMA WRITE WITH IMMEDIATE.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/node/endpoint.h"

namespace understudy {

inline constexpr uint32_t kCtsEntryBytes = 64;
inline constexpr uint32_t kCtsSlots = 256;       ///< MAX_REQUESTS
inline constexpr uint32_t kCtsSlotStride = 512;  ///< 8 entries a slot
inline constexpr uint32_t kCtsFifoBytes = kCtsSlots * kCtsSlotStride;
/// Entries of a receiver until they have arrived.
inline constexpr uint32_t kCtsStagingBytes = kCtsSlots * kCtsEntryBytes;

/// A credit: where and how much the sender may write next. All fields little-endian on the wire.
struct CtsEntry {
  uint64_t address = 0;
  uint64_t size = 0;  ///< capacity, not the message's size
  Rkey rkey = 0;      ///< of the receiver's first device
  uint32_t requests = 1;
  uint32_t tag = 0;    ///< the sender's rank
  uint64_t index = 0;  ///< message number + 1

  void encode(uint8_t* out) const;
  static CtsEntry decode(const uint8_t* in);
};

/// NCCL up to 2.28 puts the size into the immediate in host byte order (nccl-wire 3.2).
uint32_t nccl_immediate(uint32_t size);

/// The sending side of a connection.
class NcclSender {
 public:
  struct Setup {
    Qp* qp = nullptr;
    const uint8_t* fifo = nullptr;  ///< kCtsFifoBytes that the receiver writes to
  };
  void connect(const Setup& setup) { setup_ = setup; }
  Qp* qp() const { return setup_.qp; }

  /// Bytes that the credit for message `k`, which has come, offers.
  uint64_t capacity(uint64_t k) const;
  /// True when the credit for message `k` (counted over all operations) has come.
  bool has_credit(uint64_t k) const;
  /// Posts message `k`: `size` bytes to where its credit says. False without credit, when the
  /// credit is too small, or when the send queue is full. Completes with `id`.
  bool send(Time now, EndpointHost& host, uint64_t k, uint32_t size, const PayloadRef& payload,
            uint64_t id);

 private:
  Setup setup_;
};

/// The receiving side of a connection.
class NcclReceiver {
 public:
  struct Setup {
    Qp* qp = nullptr;
    uint64_t fifo_va = 0;  ///< the sender's FIFO
    Rkey fifo_rkey = 0;
    uint64_t buffer_va = 0;  ///< our memory, `slots` messages of `slot_bytes`
    Rkey buffer_rkey = 0;
    uint32_t slots = 0;
    uint32_t slot_bytes = 0;
    uint32_t sender_rank = 0;
    uint8_t* staging = nullptr;  ///< kCtsStagingBytes: entries stay until they are acknowledged
  };
  void connect(const Setup& setup) { setup_ = setup; }
  Qp* qp() const { return setup_.qp; }
  uint32_t slot(uint64_t k) const { return static_cast<uint32_t>(k % setup_.slots); }

  uint64_t granted() const { return granted_; }
  /// Grants the credit for the next message, of `capacity` bytes (0: all of a slot): posts a
  /// receive and writes the CTS entry.
  bool grant(Time now, EndpointHost& host, uint32_t capacity = 0);

 private:
  Setup setup_;
  uint64_t granted_ = 0;
};

}  // namespace understudy
