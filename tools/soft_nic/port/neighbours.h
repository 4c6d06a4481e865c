// Who has which MAC: what the soft NIC has heard by ARP, and its own questions and answers.
#pragma once

#include <optional>
#include <span>
#include <unordered_map>

#include "dataplane/wire/parse.h"
#include "tools/soft_nic/port/interface.h"

namespace understudy::soft_nic {

class Neighbours {
 public:
  explicit Neighbours(const Interface& own) : own_(own) {}

  /// Bytes of every frame that this writes.
  static constexpr uint32_t kFrameBytes = 60;

  std::optional<MacAddress> find(const IpAddress& address) const;
  void learn(const IpAddress& address, const MacAddress& mac) { known_[address] = mac; }
  /// Takes what an ARP frame says about its sender. True when it asks for our own address.
  bool hear(const FrameView& view);
  /// Writes an ARP request for `target`.
  void ask(const IpAddress& target, std::span<uint8_t, kFrameBytes> out) const;
  /// Writes the answer to a request that hear() returned true for.
  void answer(const FrameView& view, std::span<uint8_t, kFrameBytes> out) const;

 private:
  void write(const MacAddress& to, uint16_t operation, const uint8_t* target_mac,
             const uint8_t* target_ip, std::span<uint8_t, kFrameBytes> out) const;

  const Interface& own_;
  std::unordered_map<IpAddress, MacAddress> known_;
};

}  // namespace understudy::soft_nic
