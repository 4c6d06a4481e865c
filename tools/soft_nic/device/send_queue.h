// Work requests of a queue pair between being posted and being completed: what a completion must
// say, and where the bytes are.
#pragma once

#include <infiniband/verbs.h>

#include <span>
#include <vector>

#include "dataplane/rc/memory.h"
#include "dataplane/wire/build.h"

namespace understudy::soft_nic {

/// A part of a region as bytes of this process.
struct LocalPiece {
  uint8_t* bytes = nullptr;
  uint32_t length = 0;
  uint32_t region = 0;  ///< its number; 0: none
};

/// Where a datagram goes.
struct Datagram {
  RoceAddressing way;
  Qpn qpn = 0;
  uint32_t qkey = 0, imm = 0;
  bool has_imm = false, solicited = false;
};

/// One work request.
struct Work {
  uint64_t id = 0;
  ibv_wc_opcode opcode = IBV_WC_SEND;
  uint32_t length = 0;  ///< bytes
  bool signaled = false;
  bool begun = false;                      ///< handed to the transport
  ibv_wc_status refused = IBV_WC_SUCCESS;  ///< else it fails so when its turn comes
  std::vector<LocalPiece> pieces;          ///< inline data: one, into `copied`
  std::vector<uint8_t> copied;             ///< inline data; for a READ into several pieces its data
  Datagram datagram;                       ///< of unreliable datagrams only
};

class SendQueue final : public PayloadSource {
 public:
  SendQueue(uint32_t entries, uint32_t pieces, uint32_t inline_bytes);

  uint32_t entries() const { return static_cast<uint32_t>(ring_.size()); }
  size_t waiting() const { return count_; }
  bool full() const { return count_ == ring_.size(); }
  /// A slot behind the others; not if full().
  Work& push();
  /// Takes the newest one back.
  void unpush() { --count_; }
  Work& oldest() { return ring_[first_]; }
  const Work& oldest() const { return ring_[first_]; }
  void pop();
  void clear() { first_ = count_ = 0; }
  size_t slot_of(const Work& work) const { return static_cast<size_t>(&work - ring_.data()); }
  /// A work request that waits has a piece of this region.
  bool uses(uint32_t region) const;

  // PayloadSource: bytes of work requests of several pieces; the cookie is the slot.
  void fill(uint64_t cookie, uint64_t offset, std::span<uint8_t> out) const override;

 private:
  std::vector<Work> ring_;
  size_t first_ = 0, count_ = 0;
};

/// Copies a READ's data from `copied` to the pieces.
void scatter(const Work& work);

}  // namespace understudy::soft_nic
