// One direction between a real rank and another one on a channel, as NCCL's proxy sees it, without
// verbs: credits and messages (docs/nccl 3.1 to 3.4). Messages are counted from 0 over all
// operations.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "dataplane/base/result.h"

namespace understudy {

static_assert(
    std::endian::native == std::endian::little,
    "credits and immediates are in host byte order, which NCCL's users have little-endian");

/// A credit as it lies in the sender's FIFO (NCCL 2.24 to 2.29).
struct CreditEntry {
  uint64_t address;   ///< where the message is to be written
  uint64_t size;      ///< room there, in bytes
  uint32_t rkeys[4];  ///< [0] counts, one per device
  uint32_t nreqs;     ///< 1: no multi-receive
  uint32_t tag;       ///< rank of the sender
  uint64_t idx;       ///< message number + 1; written last
  uint64_t padding[2];
};
static_assert(sizeof(CreditEntry) == 64 && offsetof(CreditEntry, rkeys) == 16 &&
              offsetof(CreditEntry, nreqs) == 32 && offsetof(CreditEntry, idx) == 40);

inline constexpr unsigned kFifoSlots = 256;
inline constexpr unsigned kFifoStride = 512;  ///< bytes from slot to slot

/// What is wrong with the credit for a message of `bytes` from rank `sender`; empty if nothing.
std::string credit_fault(const CreditEntry& credit, uint32_t sender, uint64_t bytes);

class MessageLink {
 public:
  virtual ~MessageLink() = default;
  /// Of a receiver: lets the sender send message `k` of at most `capacity` bytes: a receive work
  /// request, then the credit.
  virtual Result<void> grant(uint64_t k, uint32_t capacity) = 0;
  /// Of a sender: the receiver's credit for message `k`, null while it has not come.
  virtual const CreditEntry* credit(uint64_t k) = 0;
  /// Of a sender: writes `bytes` to where the credit says, the size as immediate.
  virtual Result<void> send(uint64_t k, const CreditEntry& credit, uint32_t bytes) = 0;
  /// Of message `k`, in the memory that it is sent from or comes to.
  virtual std::byte* slot(uint64_t k) = 0;
};

}  // namespace understudy
