// The network device of a guest in virtual time: a virtio NIC (virtio 1.1, 5.1) whose other side we
// are, by vhost-user with in-band notifications, so that nothing happens beside the guest's clock.
// DPDK's vhost has no such notifications.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/address.h"
#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"
#include "dataplane/virtual_time/guest_queue.h"

namespace understudy {

class GuestNic {
 public:
  enum Queue : uint32_t { kReceive, kTransmit };
  /// The guest has given buffers to this queue. Called before it goes on.
  using Kicked = std::function<Result<void>(Queue)>;
  /// Until this descriptor has something to read; the guest's clock is served meanwhile.
  using Wait = std::function<Result<void>(int fd)>;

  explicit GuestNic(const MacAddress& mac) : mac_(mac) {}

  /// A guest's kernel connects to `path` as it boots.
  Result<void> listen(const std::string& path);
  /// To be watched for reading: serve() then. -1 once the guest is gone.
  int fd() const { return connection_.valid() ? connection_.get() : listener_.get(); }
  /// Takes a connection or a message.
  Result<void> serve(const Kicked& kicked);

  /// The next frame that the guest sends; false if there is none. give_back(head) once its last
  /// byte is on the wire.
  bool take_frame(std::vector<uint8_t>& frame, uint16_t& head);
  void give_back(uint16_t head) { queues_[kTransmit].give_back(head, 0); }
  /// Gives a frame to the guest; false while it has no room.
  bool deliver(std::span<const uint8_t> frame);
  /// The guest wants to hear of what it was given in this queue.
  bool wants_interrupt(Queue queue) const { return queues_[queue].wants_interrupt(); }
  /// Waits until the guest has taken the interrupt.
  Result<void> interrupt(Queue queue, const Wait& wait);
  /// Buffers that were not in the guest's memory, and frames that were none.
  uint64_t broken() const { return broken_; }

 private:
  struct Request;
  Result<void> take(Request& request, const Kicked& kicked);
  Result<void> map_memory(Request& request);
  GuestQueue* queue_of(const Request& request);

  MacAddress mac_;
  UniqueFd listener_, connection_;
  UniqueFd back_;  ///< for our requests to the guest
  GuestMemory memory_;
  std::array<GuestQueue, 2> queues_;
  uint64_t broken_ = 0;
};

}  // namespace understudy
