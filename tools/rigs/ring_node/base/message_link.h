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

struct CreditEntry {
  static constexpr size_t kDevices = 8;
  uint64_t address;          ///< where the message is to be written
  uint64_t size;             ///< room there, in bytes
  uint32_t rkeys[kDevices];  ///< of that memory, by the receiver's device
  uint32_t nreqs;            ///< 1: no multi-receive
  uint32_t tag;              ///< rank of the sender
  uint64_t idx;              ///< message number + 1; written last
};

/// How a credit lies in the sender's FIFO: with keys of four devices as in NCCL 2.24 to 2.29, of
/// eight as in 2.30 (docs/nccl 3.1).
class CreditForm {
 public:
  static constexpr size_t kBytes = 64;
  explicit CreditForm(uint32_t devices = 4) : devices_(devices) {}
  void write(const CreditEntry& credit, std::byte* out) const;
  CreditEntry read(const std::byte* in) const;
  /// Of idx.
  size_t idx_at() const { return nreqs_at() + 8; }

 private:
  static constexpr size_t kRkeysAt = 16;
  size_t nreqs_at() const { return kRkeysAt + devices_ * sizeof(uint32_t); }
  uint32_t devices_;
};

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
