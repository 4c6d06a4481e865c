// The soft NIC: verbs programs on hosts without an RDMA NIC. A library that stands in front of
// libibverbs (LD_PRELOAD) and plays one device over the requester and responder of dataplane/rc:
// verbs_*.cc are the C functions, queue_pair.* what a queue pair adds to rc, nic.* the device, and
// frame_port.h where its frames go.
#pragma once

#include <cstdint>
#include <span>

namespace understudy::soft_nic {

/// An Ethernet port. Used under the device's lock.
class FramePort {
 public:
  virtual ~FramePort() = default;
  /// Frames that have come in, oldest first; they stay valid until the next call.
  virtual std::span<const std::span<const uint8_t>> receive() = 0;
  /// Room for a frame of `bytes`, or null: the port takes no more now.
  virtual uint8_t* reserve(uint32_t bytes) = 0;
  /// The reserved frame leaves at the next flush().
  virtual void commit(uint32_t bytes) = 0;
  /// Hands committed frames over. What is not taken stays for the next call.
  virtual void flush() = 0;
  /// Readable while frames wait to be received; -1 where there is nothing to wait for.
  virtual int wait_fd() const = 0;
  /// From now on frames make wait_fd() readable; false: some are there already. May be called again
  /// before the end.
  virtual bool begin_wait() { return true; }
  /// Nobody waits any more.
  virtual void end_wait() {}
  /// The kernel answers ARP for this port's address.
  virtual bool kernel_answers() const = 0;
  /// Frames to this port's own address come in again, at all programs that use it.
  virtual bool comes_back() const { return false; }
};

}  // namespace understudy::soft_nic
