// Who has which MAC: what the soft NIC has heard by ARP and neighbour discovery, and its own
// questions and answers.
#pragma once

#include <optional>
#include <unordered_map>

#include "dataplane/wire/neighbour.h"
#include "tools/soft_nic/port/interface.h"

namespace understudy::soft_nic {

class Neighbours {
 public:
  explicit Neighbours(const Interface& own) : own_(own) {}

  /// Room for every frame that this writes, bytes.
  static constexpr uint32_t kFrameBytes = kNeighbourFrameBytes;

  std::optional<MacAddress> find(const IpAddress& address) const;
  void learn(const IpAddress& address, const MacAddress& mac) { known_[address] = mac; }
  /// Takes what a frame of ARP or neighbour discovery says about its sender. True when it asks for
  /// an address of ours.
  bool hear(const FrameView& view);
  /// Writes a question for `target` and returns its bytes; 0: we have no address of its family.
  uint32_t ask(const IpAddress& target, uint8_t* out) const;
  /// Writes the answer to a question that hear() returned true for; returns its bytes.
  uint32_t answer(const FrameView& view, uint8_t* out) const;

 private:
  const Interface& own_;
  std::unordered_map<IpAddress, MacAddress> known_;
};

}  // namespace understudy::soft_nic
