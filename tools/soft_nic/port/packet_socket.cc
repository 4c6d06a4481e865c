#include "tools/soft_nic/port/packet_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "dataplane/wire/headers.h"

namespace understudy::soft_nic {

namespace {

constexpr int kBufferBytes = 64 << 20;

/// ARP, and IPv4 without options that carries UDP to RoCE's port, of these two interfaces. The rest
/// is the kernel's.
bool attach_filter(int fd, int wire, int loopback) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_IFINDEX)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(wire), 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(loopback), 0, 9),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kEtherArp, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kEtherIpv4, 0, 6),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kIpProtoUdp, 0, 4),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 20 + 2),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRoceUdpPort, 0, 2),
      BPF_STMT(BPF_RET | BPF_K, 0x40000),
      BPF_STMT(BPF_RET | BPF_K, 0x40000),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const sock_fprog wanted{sizeof code / sizeof code[0], code};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &wanted, sizeof wanted) == 0;
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
UniqueFd quiet_port(const IpAddress& address) {
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  const sock_fprog none = no_frames();
  setsockopt(fd.get(), SOL_SOCKET, SO_ATTACH_FILTER, &none, sizeof none);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(kRoceUdpPort);
  at.sin_addr.s_addr = htonl(address.v4_value());
  bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  return fd;
}

std::array<uint8_t, 4> to_array(const IpAddress& address) {
  const uint32_t value = address.v4_value();
  return {static_cast<uint8_t>(value >> 24), static_cast<uint8_t>(value >> 16),
          static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
}

void set_buffer(int fd, int forced, int plain) {
  if (setsockopt(fd, SOL_SOCKET, forced, &kBufferBytes, sizeof kBufferBytes) != 0) {
    setsockopt(fd, SOL_SOCKET, plain, &kBufferBytes, sizeof kBufferBytes);
  }
}

}  // namespace

PacketSocket::Batch::Batch() : bytes(new uint8_t[kBurst * kFrameBytes]) {
  for (size_t i = 0; i < kBurst; ++i) {
    pieces[i] = {frame(i), kFrameBytes};
    messages[i] = {};
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
}

PacketSocket::PacketSocket(UniqueFd socket, UniqueFd quiet, const Interface& interface,
                           int loopback)
    : address_(to_array(interface.address)), socket_(std::move(socket)), quiet_(std::move(quiet)) {
  wire_.sll_family = loopback_.sll_family = AF_PACKET;
  wire_.sll_ifindex = interface.index;
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
  if (!attach_filter(fd.get(), interface.index, loopback)) return broken("no filter");
  const int on = 1;
  setsockopt(fd.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
  setsockopt(fd.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  set_buffer(fd.get(), SO_RCVBUFFORCE, SO_RCVBUF);
  set_buffer(fd.get(), SO_SNDBUFFORCE, SO_SNDBUF);
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = loopback == 0 ? interface.index : 0;  // any: the filter knows which
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    return broken("cannot be bound");
  }
  return std::unique_ptr<PacketSocket>(
      new PacketSocket(std::move(fd), quiet_port(interface.address), interface, loopback));
}

std::span<const std::span<const uint8_t>> PacketSocket::receive() {
  const int got = recvmmsg(socket_.get(), in_.messages.data(), kBurst, MSG_DONTWAIT, nullptr);
  if (got <= 0) return {};
  const auto count = static_cast<size_t>(got);
  for (size_t i = 0; i < count; ++i) frames_[i] = {in_.frame(i), in_.messages[i].msg_len};
  return {frames_.data(), count};
}

uint8_t* PacketSocket::reserve(uint32_t bytes) {
  if (last_out_ == kBurst) flush();
  if (last_out_ == kBurst || bytes > kFrameBytes) return nullptr;
  return out_.frame(last_out_);
}

bool PacketSocket::is_for_here(const uint8_t* frame) const {
  constexpr size_t kTypeAt = 12, kDestinationAt = 14 + 16;
  return frame[kTypeAt] == kEtherIpv4 >> 8 && frame[kTypeAt + 1] == (kEtherIpv4 & 0xff) &&
         std::memcmp(frame + kDestinationAt, address_.data(), address_.size()) == 0;
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
