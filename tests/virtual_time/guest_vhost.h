// A guest's side of a vhost-user socket, message by message.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/unique_fd.h"
#include "dataplane/virtual_time/guest_socket.h"
#include "tests/virtual_time/guest_memory.h"

namespace understudy {

/// Requests of vhost-user that these tests make.
enum class Vhost : uint32_t {
  kGetFeatures = 1,
  kSetFeatures = 2,
  kSetOwner = 3,
  kSetMemTable = 5,
  kSetVringNum = 8,
  kSetVringAddr = 9,
  kSetVringBase = 10,
  kGetVringBase = 11,
  kGetProtocolFeatures = 15,
  kGetQueueNum = 17,
  kSetVringEnable = 18,
  kSetBackendRequestFd = 21,
  kGetConfig = 24,
  kVringKick = 35,
};

struct VhostMessage {
  uint32_t code = 0, flags = 0;
  std::vector<uint8_t> payload;
  uint64_t number(size_t at = 0) const {
    uint64_t value = 0;
    if (payload.size() >= at + sizeof value) std::memcpy(&value, payload.data() + at, sizeof value);
    return value;
  }
};

inline UniqueFd connect_unix(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    std::abort();
  }
  return fd;
}

template <typename... Fields>
std::vector<uint8_t> packed(const Fields&... fields) {
  std::vector<uint8_t> bytes;
  (bytes.insert(bytes.end(), reinterpret_cast<const uint8_t*>(&fields),
                reinterpret_cast<const uint8_t*>(&fields) + sizeof fields),
   ...);
  return bytes;
}

class VhostClient {
 public:
  static constexpr uint32_t kVersion = 1, kNeedReply = 8;

  VhostClient() = default;
  explicit VhostClient(const std::string& path) : fd_(connect_unix(path)) {}
  int fd() const { return fd_.get(); }
  void hang_up() { fd_ = UniqueFd(); }

  void send_bytes(std::span<const uint8_t> bytes, std::initializer_list<int> fds = {}) const {
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fds.size() > 0) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&message);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(c), fds.begin(), fds.size() * sizeof(int));
    }
    if (sendmsg(fd_.get(), &message, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
  }
  void send(Vhost code, const std::vector<uint8_t>& payload = {},
            std::initializer_list<int> fds = {}, uint32_t flags = kVersion) const {
    std::vector<uint8_t> bytes =
        packed(static_cast<uint32_t>(code), flags, static_cast<uint32_t>(payload.size()));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    send_bytes(bytes, fds);
  }
  /// Nothing has come, and the other end is there.
  bool silent() const {
    char byte;
    return recv(fd_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
  }
  VhostMessage receive() const {
    VhostMessage message;
    uint8_t header[12];
    if (!read_whole(fd_.get(), header)) std::abort();
    uint32_t bytes = 0;
    std::memcpy(&message.code, header, 4);
    std::memcpy(&message.flags, header + 4, 4);
    std::memcpy(&bytes, header + 8, 4);
    message.payload.resize(bytes);
    if (!read_whole(fd_.get(), message.payload)) std::abort();
    return message;
  }

  void share(const GuestFile& file) const {
    send(Vhost::kSetMemTable,
         packed(uint32_t{1}, uint32_t{0}, GuestFile::kGuest, uint64_t{file.bytes()},
                GuestFile::kUser, uint64_t{0}),
         {file.fd()});
  }
  /// Four messages.
  void set_up(uint32_t queue, const GuestRing& ring, uint32_t base = 0) const {
    send(Vhost::kSetVringNum, packed(queue, uint32_t{ring.entries()}));
    send(Vhost::kSetVringBase, packed(queue, base));
    send(Vhost::kSetVringAddr, packed(queue, uint32_t{0}, ring.descriptors(), ring.used(),
                                      ring.available(), uint64_t{0}));
    send(Vhost::kSetVringEnable, packed(queue, uint32_t{1}));
  }

 private:
  UniqueFd fd_;
};

}  // namespace understudy
