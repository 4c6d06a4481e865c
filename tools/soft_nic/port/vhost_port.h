// A port over a vhost-user socket, as the emulator's net_vhost has it: frames go through memory
// that both processes share, without a call of the kernel and without any privilege.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "tools/soft_nic/port/frame_port.h"
#include "tools/soft_nic/port/vhost_socket.h"

namespace understudy::soft_nic {

class VhostPort final : public FramePort {
 public:
  /// For frames of up to `longest` bytes. One program at a time may use a socket: `path`.lock
  /// stands for that. Errors name the path and what to do.
  static Result<std::unique_ptr<VhostPort>> open(const std::string& path, uint32_t longest);
  ~VhostPort() override;
  VhostPort(const VhostPort&) = delete;
  VhostPort& operator=(const VhostPort&) = delete;

  std::span<const std::span<const uint8_t>> receive() override;
  uint8_t* reserve(uint32_t bytes) override;
  void commit(uint32_t bytes) override;
  void flush() override;
  int wait_fd() const override { return receive_.call.get(); }
  bool begin_wait() override;
  void end_wait() override;
  bool kernel_answers() const override { return false; }

 private:
  static constexpr uint16_t kEntries = 256;  ///< of a queue
  static constexpr size_t kBurst = 32;

  // virtio 1.1, 2.6: a split virtqueue.
  struct Descriptor {
    uint64_t address;
    uint32_t bytes;
    uint16_t flags, next;
  };
  struct Available {
    uint16_t flags, index;
    uint16_t entries[kEntries];
  };
  struct Used {
    uint16_t flags, index;
    struct {
      uint32_t id, bytes;
    } entries[kEntries];
  };
  struct Rings {
    alignas(64) Descriptor descriptors[kEntries];
    alignas(64) Available available;
    alignas(64) Used used;
  };
  struct Queue {
    Rings* rings = nullptr;
    uint8_t* buffers = nullptr;
    uint16_t available = 0;  ///< entries ever offered, as the ring counts them
    uint16_t used = 0;       ///< entries ever taken back
    UniqueFd kick, call;
  };

  VhostPort(VhostSocket socket, UniqueFd lock, uint32_t longest);
  Result<void> share();
  QueueAddresses addresses(const Queue& queue) const;
  uint8_t* buffer(const Queue& queue, uint32_t id) const;
  void offer(Queue& queue, uint16_t id);
  void publish(Queue& queue);
  bool still_there();

  VhostSocket socket_;
  UniqueFd lock_;
  const uint32_t longest_, stride_;
  UniqueFd file_;
  uint8_t* memory_ = nullptr;
  uint64_t bytes_ = 0;
  Queue receive_, transmit_;
  std::array<std::span<const uint8_t>, kBurst> frames_;
  std::array<uint16_t, kBurst> given_;  ///< buffers of the frames that the last call gave out
  size_t given_count_ = 0;
  std::vector<uint16_t> free_;  ///< buffers to send from
  bool gone_ = false;           ///< the server is
};

}  // namespace understudy::soft_nic
