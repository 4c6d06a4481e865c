#include "tools/soft_nic/port/vhost_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "dataplane/base/try.h"

namespace understudy::soft_nic {

namespace {

// vhost-user's requests and flags (QEMU's documentation, interop/vhost-user.rst).
enum Request : uint32_t {
  kGetFeatures = 1,
  kSetFeatures = 2,
  kSetOwner = 3,
  kSetMemTable = 5,
  kSetVringNum = 8,
  kSetVringAddr = 9,
  kSetVringBase = 10,
  kSetVringKick = 12,
  kSetVringCall = 13,
  kGetProtocolFeatures = 15,
  kSetProtocolFeatures = 16,
  kSetVringEnable = 18,
};
constexpr uint32_t kVersion = 1, kVersionBits = 3, kReply = 1 << 2, kNeedReply = 1 << 3;
constexpr uint64_t kVirtio1 = 1ULL << 32, kProtocol = 1ULL << 30;
constexpr uint64_t kReplyAck = 1ULL << 3;
constexpr time_t kPatienceSeconds = 10;

struct Header {
  uint32_t request, flags, bytes;
};

uint64_t pair(uint32_t first, uint32_t second) { return first | uint64_t{second} << 32; }

}  // namespace

Result<VhostSocket> VhostSocket::connect(const std::string& path) {
  const std::string where = "vhost socket " + path + ": ";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return fail(where + "the path is too long");
  path.copy(address.sun_path, path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const bool nobody = errno == ENOENT || errno == ECONNREFUSED;
    return fail(where + std::strerror(errno) +
                (nobody ? "; start `understudy run` with a port of "
                          "device = \"net_vhost0,iface=" +
                              path + ",queues=1\" first"
                        : ""));
  }
  const timeval patience{kPatienceSeconds, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return VhostSocket(path, std::move(fd));
}

Result<uint64_t> VhostSocket::answer(const char* step, uint32_t request) {
  uint8_t bytes[sizeof(Header) + sizeof(uint64_t)];
  const ssize_t got = recv(socket_.get(), bytes, sizeof bytes, MSG_WAITALL);
  Header header{};
  std::memcpy(&header, bytes, sizeof header);
  if (got != sizeof bytes || header.request != request || header.bytes != sizeof(uint64_t) ||
      (header.flags & (kVersionBits | kReply)) != (kVersion | kReply)) {
    return fail(where() + step + ": no answer as vhost-user has it");
  }
  uint64_t value = 0;
  std::memcpy(&value, bytes + sizeof header, sizeof value);
  return value;
}

Result<uint64_t> VhostSocket::ask(const char* step, uint32_t request) {
  const Header header{request, kVersion, 0};
  if (send(socket_.get(), &header, sizeof header, MSG_NOSIGNAL) != sizeof header) {
    return fail(where() + step + ": " + std::strerror(errno));
  }
  return answer(step, request);
}

Result<void> VhostSocket::say(const char* step, uint32_t request, std::span<const uint64_t> words,
                              int fd) {
  Header header{request, confirms_ ? kVersion | kNeedReply : kVersion,
                static_cast<uint32_t>(words.size_bytes())};
  iovec parts[2] = {{&header, sizeof header},
                    {const_cast<uint64_t*>(words.data()), words.size_bytes()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  const size_t bytes = sizeof header + words.size_bytes();
  if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    return fail(where() + step + ": " + std::strerror(errno));
  }
  if (!confirms_) return {};
  const auto status = TRY(answer(step, request));
  if (status != 0) return fail(where() + step + " is refused");
  return {};
}

Result<void> VhostSocket::set_up(const SharedMemory& memory,
                                 const std::array<QueueAddresses, 2>& queues) {
  const auto offered = TRY(ask("features", kGetFeatures));
  if ((offered & (kVirtio1 | kProtocol)) != (kVirtio1 | kProtocol)) {
    return fail(where() + "the server does not know virtio 1 and vhost-user's own features");
  }
  const auto protocol = TRY(ask("protocol features", kGetProtocolFeatures));
  Result<void> done;
  // Of what may follow one another without a look at each.
  const auto next = [&](const char* step, Request request, std::initializer_list<uint64_t> words,
                        int fd = -1) {
    if (done) done = say(step, request, {words.begin(), words.size()}, fd);
  };
  const uint64_t chosen = protocol & kReplyAck;
  next("protocol features", kSetProtocolFeatures, {chosen});
  confirms_ = chosen != 0;
  next("the owner", kSetOwner, {});
  next("features", kSetFeatures, {kVirtio1 | kProtocol});
  const uint64_t at = reinterpret_cast<uintptr_t>(memory.at);
  next("shared memory", kSetMemTable, {pair(1, 0), at, memory.bytes, at, 0}, memory.fd);
  const auto address = [](const void* of) { return uint64_t{reinterpret_cast<uintptr_t>(of)}; };
  for (uint32_t i = 0; i < queues.size(); ++i) {
    const QueueAddresses& queue = queues[i];
    next("a queue's size", kSetVringNum, {pair(i, queue.entries)});
    next("a queue's begin", kSetVringBase, {pair(i, 0)});
    next(
        "a queue's rings", kSetVringAddr,
        {pair(i, 0), address(queue.descriptors), address(queue.used), address(queue.available), 0});
    next("a queue's events", kSetVringCall, {i}, queue.call);
    next("a queue's events", kSetVringKick, {i}, queue.kick);
    next("a queue", kSetVringEnable, {pair(i, 1)});
  }
  return done;
}

bool VhostSocket::connected() const {
  char byte;
  const ssize_t got = recv(socket_.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace understudy::soft_nic
