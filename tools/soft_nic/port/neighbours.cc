#include "tools/soft_nic/port/neighbours.h"

#include <algorithm>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy::soft_nic {

namespace {

constexpr uint16_t kArpRequest = 1, kArpReply = 2;

/// parse_frame() has checked that it is all there.
ArpHeader arp_of(const FrameView& view) {
  ArpHeader arp;
  std::memcpy(&arp, view.frame.data() + view.l3, sizeof arp);
  return arp;
}

}  // namespace

std::optional<MacAddress> Neighbours::find(const IpAddress& address) const {
  if (address == own_.address) return own_.mac;
  const auto at = known_.find(address);
  return at == known_.end() ? std::nullopt : std::optional(at->second);
}

bool Neighbours::hear(const FrameView& view) {
  const ArpHeader arp = arp_of(view);
  if (arp.protocol.get() != kEtherIpv4) return false;
  const IpAddress sender = IpAddress::v4_bytes(arp.sender_ip);
  const bool asks_us =
      arp.operation.get() == kArpRequest && IpAddress::v4_bytes(arp.target_ip) == own_.address;
  MacAddress mac;
  std::memcpy(mac.bytes.data(), arp.sender_mac, mac.bytes.size());
  // Others' talk is not kept, but for news of whom we know.
  const bool to_us = asks_us || IpAddress::v4_bytes(arp.target_ip) == own_.address;
  if (sender.v4_value() != 0 && !mac.is_multicast() && (to_us || known_.contains(sender))) {
    known_[sender] = mac;
  }
  return asks_us;
}

void Neighbours::ask(const IpAddress& target, std::span<uint8_t, kFrameBytes> out) const {
  constexpr uint8_t kNobody[6] = {};
  MacAddress everybody;
  everybody.bytes.fill(0xff);
  write(everybody, kArpRequest, kNobody, target.v4_data(), out);
}

void Neighbours::answer(const FrameView& view, std::span<uint8_t, kFrameBytes> out) const {
  const ArpHeader arp = arp_of(view);
  write(view.src_mac, kArpReply, arp.sender_mac, arp.sender_ip, out);
}

void Neighbours::write(const MacAddress& to, uint16_t operation, const uint8_t* target_mac,
                       const uint8_t* target_ip, std::span<uint8_t, kFrameBytes> out) const {
  std::fill(out.begin(), out.end(), uint8_t{0});
  EthHeader eth;
  std::memcpy(eth.dst, to.bytes.data(), sizeof eth.dst);
  std::memcpy(eth.src, own_.mac.bytes.data(), sizeof eth.src);
  eth.type = kEtherArp;
  ArpHeader arp{};
  arp.hardware = 1;
  arp.protocol = kEtherIpv4;
  arp.hardware_size = 6;
  arp.protocol_size = 4;
  arp.operation = operation;
  std::memcpy(arp.sender_mac, own_.mac.bytes.data(), sizeof arp.sender_mac);
  std::memcpy(arp.sender_ip, own_.address.v4_data(), sizeof arp.sender_ip);
  std::memcpy(arp.target_mac, target_mac, sizeof arp.target_mac);
  std::memcpy(arp.target_ip, target_ip, sizeof arp.target_ip);
  std::memcpy(out.data(), &eth, sizeof eth);
  std::memcpy(out.data() + sizeof eth, &arp, sizeof arp);
}

}  // namespace understudy::soft_nic
