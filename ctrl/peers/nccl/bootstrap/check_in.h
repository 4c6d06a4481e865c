// What a rank tells the root of its communicator, and what the root answers (docs/nccl 1.3).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/bootstrap/bootstrap_layout.h"
#include "ctrl/peers/nccl/bootstrap/host.h"

namespace understudy {

struct NcclCheckIn {
  uint32_t rank = 0, ranks = 0;
  SocketAddress answer;  ///< where the rank takes the root's answer
  SocketAddress ring;    ///< where the rank before it is to connect
};

/// A frame's payload.
std::vector<uint8_t> check_in_bytes(const BootstrapLayout& layout, const NcclCheckIn& check_in);
/// Of layout.check_in bytes. Errors: several roots, unreadable addresses.
Result<NcclCheckIn> parse_check_in(const BootstrapLayout& layout, std::span<const uint8_t> bytes);

/// The answer, and what ranks send when they split a communicator: the next rank's ring address.
std::vector<uint8_t> ring_info_bytes(const BootstrapLayout& layout, const SocketAddress& ring);

/// Empty, or why the ring address cannot be used: with NCCL_OOB_NET_ENABLE it is a net_ib handle.
std::string ring_info_fault(std::span<const uint8_t> bytes);

/// The root of a communicator, for its real ranks: emulated ones are known.
class NcclRoot {
 public:
  NcclRoot(const BootstrapLayout& layout, std::vector<bool> real)
      : layout_(layout), real_(std::move(real)) {}

  /// Empty, or what is wrong with it. `from`: where it came from, for the text.
  std::string take(const NcclCheckIn& check_in, const SocketAddress& from);
  /// Real ranks that can be answered now, in order; each is given once.
  std::vector<uint32_t> answerable();
  const NcclCheckIn& of(uint32_t rank) const { return came_.at(rank).check_in; }
  bool has(uint32_t rank) const { return came_.contains(rank); }
  bool was_answered(uint32_t rank) const { return has(rank) && came_.at(rank).answered; }
  /// Real ranks that have not checked in.
  std::vector<uint32_t> missing() const;

 private:
  struct Came {
    NcclCheckIn check_in;
    SocketAddress from;
    bool answered = false;
  };
  const BootstrapLayout& layout_;
  std::vector<bool> real_;
  std::map<uint32_t, Came> came_;
};

}  // namespace understudy
