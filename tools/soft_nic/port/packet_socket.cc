#include "tools/soft_nic/port/packet_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy::soft_nic {

namespace {

constexpr int kBufferBytes = 64 << 20;

/// A program of the kernel's packet filter.
class Filter {
 public:
  static constexpr size_t kNext = 0;  ///< the instruction behind this one
  void load(uint16_t size, uint32_t at) {
    code_.push_back(BPF_STMT(static_cast<uint16_t>(BPF_LD | BPF_ABS | size), at));
  }
  /// Goes on at the one or the other place.
  void compare(uint32_t value, size_t if_equal, size_t otherwise) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, to(if_equal), to(otherwise)));
  }
  void mask(uint32_t bits) { code_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)); }
  void end(bool take) { code_.push_back(BPF_STMT(BPF_RET | BPF_K, take ? 0x40000U : 0)); }
  bool attach(int fd) {
    const sock_fprog wanted{static_cast<unsigned short>(code_.size()), code_.data()};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &wanted, sizeof wanted) == 0;
  }

 private:
  uint8_t to(size_t place) const {
    return static_cast<uint8_t>(place == kNext ? 0 : place - code_.size() - 1);
  }
  std::vector<sock_filter> code_;
};

/// Of these two interfaces and our VLAN: ARP, IPv4 without options and IPv6 that carry UDP to
/// RoCE's port, and neighbour discovery. The rest is the kernel's.
bool attach_filter(int fd, const Interface& interface, int loopback) {
  constexpr auto kInterface = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_IFINDEX);
  // The kernel has taken the tag out before.
  constexpr auto kTag = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG);
  constexpr auto kIsTagged = static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT);
  constexpr uint32_t kTypeAt = 12, kL3 = 14, kL4v4 = kL3 + sizeof(Ipv4Header),
                     kL4v6 = kL3 + sizeof(Ipv6Header);
  constexpr uint32_t kSolicitation = 135, kAdvertisement = 136;
  constexpr size_t kNext = Filter::kNext, kVlan = 3, kL2 = 8, kV4 = 12, kV6 = 16, kIcmp = 21,
                   kTake = 24, kLeave = 25;
  Filter code;
  code.load(BPF_W, kInterface);
  code.compare(static_cast<uint32_t>(interface.link), kVlan, kNext);
  code.compare(static_cast<uint32_t>(loopback), kVlan, kLeave);
  code.load(BPF_B, kIsTagged);  // kVlan
  code.compare(0, interface.vlan ? kLeave : kL2, kNext);
  code.load(BPF_H, kTag);
  code.mask(0xfff);
  code.compare(interface.vlan.value_or(0), kL2, kLeave);
  code.load(BPF_H, kTypeAt);  // kL2
  code.compare(kEtherArp, kTake, kNext);
  code.compare(kEtherIpv6, kV6, kNext);
  code.compare(kEtherIpv4, kV4, kLeave);
  code.load(BPF_B, kL3 + offsetof(Ipv4Header, protocol));  // kV4
  code.compare(kIpProtoUdp, kNext, kLeave);
  code.load(BPF_H, kL4v4 + offsetof(UdpHeader, dst_port));
  code.compare(kRoceUdpPort, kTake, kLeave);
  code.load(BPF_B, kL3 + offsetof(Ipv6Header, next_header));  // kV6
  code.compare(kIpProtoIcmpv6, kIcmp, kNext);
  code.compare(kIpProtoUdp, kNext, kLeave);
  code.load(BPF_H, kL4v6 + offsetof(UdpHeader, dst_port));
  code.compare(kRoceUdpPort, kTake, kLeave);
  code.load(BPF_B, kL4v6);  // kIcmp: its type
  code.compare(kSolicitation, kTake, kNext);
  code.compare(kAdvertisement, kTake, kLeave);
  code.end(true);
  code.end(false);
  return code.attach(fd);
}

/// Its index, or 0 where it is down: then nothing can be sent by it.
int loopback_index() {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq asked{};
  std::strcpy(asked.ifr_name, "lo");
  if (ioctl(fd.get(), SIOCGIFFLAGS, &asked) != 0 || (asked.ifr_flags & IFF_UP) == 0) return 0;
  return static_cast<int>(if_nametoindex(asked.ifr_name));
}

sock_fprog no_frames() {
  static sock_filter code[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  return {1, code};
}

/// Without it the kernel would answer every packet by "port unreachable". Not there: something else
/// has the port (the kernel's own RoCE), which keeps it from answering as well.
UniqueFd quiet_port(const IpAddress& address, int interface) {
  UniqueFd fd(socket(address.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  const sock_fprog none = no_frames();
  setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &none, sizeof none);
  if (address.is_v4()) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(kRoceUdpPort);
    at.sin_addr.s_addr = htonl(address.v4_value());
    (void)bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  } else {
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_port = htons(kRoceUdpPort);
    std::memcpy(at.sin6_addr.s6_addr, address.data(), sizeof at.sin6_addr);
    if (address.is_link_local_v6()) at.sin6_scope_id = static_cast<uint32_t>(interface);
    (void)bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  }
  return fd;
}

void set_buffer(int fd, int forced, int plain) {
  if (setsockopt(fd, SOL_SOCKET, forced, &kBufferBytes, sizeof kBufferBytes) != 0) {
    setsockopt(fd, SOL_SOCKET, plain, &kBufferBytes, sizeof kBufferBytes);
  }
}

}  // namespace

PacketSocket::Batch::Batch(size_t lead) : bytes(new uint8_t[kBurst * kFrameBytes]) {
  for (size_t i = 0; i < kBurst; ++i) {
    pieces[i] = {frame(i) + lead, kFrameBytes - lead};
    messages[i] = {};
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
}

PacketSocket::PacketSocket(UniqueFd socket, const Interface& interface, int loopback)
    : interface_(interface),
      socket_(std::move(socket)),
      in_(interface.vlan ? sizeof(VlanTag) : 0),
      out_(0) {
  if (interface.vlan) want_tags();
  for (const IpPrefix& own : interface.addresses) {
    quiet_.push_back(quiet_port(own.address, interface.index));
  }
  wire_.sll_family = loopback_.sll_family = AF_PACKET;
  wire_.sll_ifindex = interface.link;
  loopback_.sll_ifindex = loopback;
  for (mmsghdr& message : out_.messages) message.msg_hdr.msg_namelen = sizeof wire_;
}

Result<std::unique_ptr<PacketSocket>> PacketSocket::open(const Interface& interface) {
  const auto broken = [&](const char* what) {
    return fail(interface.name + ": " + what + ": " + std::strerror(errno) +
                (errno == EPERM ? " (CAP_NET_RAW is needed)" : ""));
  };
  // Protocol 0 until the filter stands: nothing unwanted gets in.
  UniqueFd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return broken("no packet socket");
  const int loopback = loopback_index();
  if (!attach_filter(fd.get(), interface, loopback)) return broken("no filter");
  const int on = 1;
  setsockopt(fd.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
  setsockopt(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  set_buffer(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF);
  set_buffer(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF);
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = loopback == 0 ? interface.link : 0;  // any: the filter knows which
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    return broken("cannot be bound");
  }
  return std::unique_ptr<PacketSocket>(new PacketSocket(std::move(fd), interface, loopback));
}

void PacketSocket::want_tags() {
  const int on = 1;
  setsockopt(socket_.get(), SOL_PACKET, PACKET_AUXDATA, &on, sizeof on);
  beside_.resize(kBurst);
  for (size_t i = 0; i < kBurst; ++i) {
    in_.messages[i].msg_hdr.msg_control = beside_[i].bytes.data();
    in_.messages[i].msg_hdr.msg_controllen = sizeof(Beside);
  }
}

/// The frame with the tag that the kernel took out, in the room before it.
std::span<const uint8_t> PacketSocket::tagged(size_t i) {
  constexpr size_t kMacs = 12;
  msghdr& message = in_.messages[i].msg_hdr;
  tpacket_auxdata about{};
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    std::memcpy(&about, CMSG_DATA(c), sizeof about);
  }
  message.msg_controllen = sizeof(Beside);  // for the next one
  uint8_t* frame = in_.frame(i);
  std::memmove(frame, frame + sizeof(VlanTag), kMacs);
  const Be16 tag[] = {kEtherVlan, about.tp_vlan_tci};
  std::memcpy(frame + kMacs, tag, sizeof tag);
  return {frame, in_.messages[i].msg_len + sizeof(VlanTag)};
}

std::span<const std::span<const uint8_t>> PacketSocket::receive() {
  const int got = recvmmsg(socket_.get(), in_.messages.data(), kBurst, MSG_DONTWAIT, nullptr);
  if (got <= 0) return {};
  const auto count = static_cast<size_t>(got);
  for (size_t i = 0; i < count; ++i) {
    frames_[i] = beside_.empty() ? std::span<const uint8_t>(in_.frame(i), in_.messages[i].msg_len)
                                 : tagged(i);
  }
  return {frames_.data(), count};
}

uint8_t* PacketSocket::reserve(uint32_t bytes) {
  if (last_out_ == kBurst) flush();
  if (last_out_ == kBurst || bytes > kFrameBytes) return nullptr;
  return out_.frame(last_out_);
}

bool PacketSocket::is_for_here(const uint8_t* frame) const {
  constexpr size_t kTypeAt = 12, kL3 = 14;
  if (interface_.vlan) frame += sizeof(VlanTag);
  const auto type = static_cast<uint16_t>(frame[kTypeAt] << 8 | frame[kTypeAt + 1]);
  if (type == kEtherIpv4) return interface_.has(IpAddress::v4_bytes(frame + kL3 + 16));
  return type == kEtherIpv6 && interface_.has(IpAddress::v6_bytes(frame + kL3 + 24));
}

void PacketSocket::commit(uint32_t bytes) {
  const bool goes_back = comes_back() && is_for_here(out_.frame(last_out_));
  out_.messages[last_out_].msg_hdr.msg_name = goes_back ? &loopback_ : &wire_;
  out_.pieces[last_out_++].iov_len = bytes;
}

void PacketSocket::flush() {
  while (first_out_ < last_out_) {
    const int sent = sendmmsg(socket_.get(), out_.messages.data() + first_out_,
                              static_cast<unsigned>(last_out_ - first_out_), MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    // ENOBUFS, ENETDOWN ...: the device lost the first one, as a wire may; the transport repeats
    // it.
    first_out_ += sent > 0 ? static_cast<size_t>(sent) : 1;
  }
  first_out_ = last_out_ = 0;
}

}  // namespace understudy::soft_nic
