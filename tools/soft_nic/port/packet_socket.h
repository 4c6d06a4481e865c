// A port over a packet socket: any Ethernet interface of the kernel, beside the kernel's own use of
// it. Only ARP, neighbour discovery and RoCEv2 come in. Programs on one address reach each other by
// the host's loopback interface, where that is up: no wire gives a frame back.
#pragma once

#include <linux/if_packet.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"
#include "tools/soft_nic/port/frame_port.h"
#include "tools/soft_nic/port/interface.h"

namespace understudy::soft_nic {

class PacketSocket final : public FramePort {
 public:
  /// Needs CAP_NET_RAW in the network namespace. Errors name the interface and the reason.
  static Result<std::unique_ptr<PacketSocket>> open(const Interface& interface);

  std::span<const std::span<const uint8_t>> receive() override;
  uint8_t* reserve(uint32_t bytes) override;
  void commit(uint32_t bytes) override;
  void flush() override;
  int wait_fd() const override { return socket_.get(); }
  bool kernel_answers() const override { return interface_.kernel_answers; }
  bool comes_back() const override { return loopback_.sll_ifindex != 0; }

 private:
  static constexpr size_t kBurst = 64;
  static constexpr uint32_t kFrameBytes = 9216;
  struct Batch {
    /// `lead` bytes are free before each frame.
    explicit Batch(size_t lead);
    std::unique_ptr<uint8_t[]> bytes;
    std::array<iovec, kBurst> pieces;
    std::array<mmsghdr, kBurst> messages;
    uint8_t* frame(size_t i) { return bytes.get() + i * kFrameBytes; }
  };

  PacketSocket(UniqueFd socket, const Interface& interface, int loopback);
  bool is_for_here(const uint8_t* frame) const;
  void want_tags();
  std::span<const uint8_t> tagged(size_t i);

  const Interface interface_;
  sockaddr_ll wire_{}, loopback_{};  ///< where frames leave
  UniqueFd socket_;
  /// Bound to RoCE's UDP port, so that the kernel does not refuse what comes there.
  std::vector<UniqueFd> quiet_;
  Batch in_, out_;
  /// What the kernel says of each frame beside its bytes: the tag, which it takes out.
  struct alignas(cmsghdr) Beside {
    std::array<uint8_t, CMSG_SPACE(sizeof(tpacket_auxdata))> bytes;
  };
  std::vector<Beside> beside_;  ///< empty where there is no VLAN
  std::array<std::span<const uint8_t>, kBurst> frames_;
  size_t first_out_ = 0, last_out_ = 0;  ///< frames of `out_` that wait for flush()
};

}  // namespace understudy::soft_nic
