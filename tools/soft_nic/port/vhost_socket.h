// The conversation with a vhost-user server (DPDK's net_vhost): what the soft NIC must say before
// two virtqueues in shared memory carry its frames.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/unique_fd.h"

namespace understudy::soft_nic {

/// Memory that both ends see; addresses in rings are those of this process.
struct SharedMemory {
  int fd = -1;
  uint8_t* at = nullptr;
  uint64_t bytes = 0;
};

/// One split virtqueue (virtio 1.1, 2.6) in shared memory.
struct QueueAddresses {
  uint32_t entries = 0;
  const void* descriptors = nullptr;
  const void* available = nullptr;
  const void* used = nullptr;
  int kick = -1;  ///< eventfd: the server is to look
  int call = -1;  ///< eventfd: the server has used entries
};

class VhostSocket {
 public:
  /// Connects to `path`. Errors say what to do.
  static Result<VhostSocket> connect(const std::string& path);

  /// Tells the server of `memory` and its queues, receive and transmit; frames may follow. Errors
  /// name the step that was refused.
  Result<void> set_up(const SharedMemory& memory, const std::array<QueueAddresses, 2>& queues);
  /// The server is still there.
  bool connected() const;

 private:
  VhostSocket(std::string path, UniqueFd socket)
      : path_(std::move(path)), socket_(std::move(socket)) {}
  Result<void> say(const char* step, uint32_t request, std::span<const uint64_t> words,
                   int fd = -1);
  Result<uint64_t> ask(const char* step, uint32_t request);
  Result<uint64_t> answer(const char* step, uint32_t request);
  std::string where() const { return "vhost socket " + path_ + ": "; }

  std::string path_;
  UniqueFd socket_;
  bool confirms_ = false;  ///< the server answers requests that have no other answer
};

}  // namespace understudy::soft_nic
