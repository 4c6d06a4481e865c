#include "tools/soft_nic/device/kernel_side.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>

#include "tools/soft_nic/base/signals.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {

namespace {

bool is_connection_from(int fd, const IpAddress& own) {
  sockaddr_storage at{}, peer{};
  socklen_t size = sizeof at, peer_size = sizeof peer;
  int type = 0;
  socklen_t type_size = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_STREAM ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return false;
  }
  if (at.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(at).sin_addr.s_addr) == own.v4_value();
  }
  if (at.ss_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at).sin6_addr;
  return std::memcmp(v6.s6_addr, own.gid().data(), sizeof v6.s6_addr) == 0;  // ::ffff:a.b.c.d
}

/// A connection from `own` in the network namespace has something that its peer has not
/// acknowledged, its end at the latest: those that programs have closed, too (proc(5), net/tcp).
bool any_unheard(const IpAddress& own) {
  enum State { kFinWait1 = 4, kLastAck = 9, kClosing = 11 };  // as Linux numbers them
  char v4[9];
  std::snprintf(v4, sizeof v4, "%08X", htonl(own.v4_value()));
  for (const char* name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(name);
    std::string line;
    std::getline(file, line);  // the head
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote;
      int state = 0;
      words >> number >> local >> remote >> std::hex >> state;
      const bool ours = local.substr(0, local.find(':')).ends_with(v4);
      if (ours && (state == kFinWait1 || state == kLastAck || state == kClosing)) return true;
    }
  }
  return false;
}

}  // namespace

Result<UniqueFd> KernelSide::attach(const std::string& name) {
  const auto broken = [&](const char* what) {
    return fail("TAP " + name + ": " + what + ": " + std::strerror(errno));
  };
  // Else TUNSETIFF would make one, which has no address.
  if (if_nametoindex(name.c_str()) == 0) {
    return broken("make it first, by `ip tuntap add dev NAME mode tap`");
  }
  UniqueFd tap(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tap.valid()) return broken("/dev/net/tun");
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  int attached = ioctl(tap.get(), TUNSETIFF, &request);
  if (attached != 0 &&
      errno == EINVAL) {  // it has several queues, of which one is held (hold_tap.cc)
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE;
    attached = ioctl(tap.get(), TUNSETIFF, &request);
  }
  if (attached != 0) {
    return broken(errno == EBUSY ? "another program uses it" : "cannot be attached");
  }
  // Frames leave complete, as they go on the wire.
  if (ioctl(tap.get(), TUNSETOFFLOAD, 0) != 0) return broken("its offloads stay on");
  return tap;
}

KernelSide::KernelSide(Nic& nic, UniqueFd tap)
    : nic_(nic), tap_(std::move(tap)), stop_(eventfd(0, EFD_CLOEXEC)) {
  nic_.set_kernel_side([this](std::span<const uint8_t> frame) {
    // A full TAP drops, as a full NIC does.
    [[maybe_unused]] const auto written = write(tap_.get(), frame.data(), frame.size());
  });
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

KernelSide::~KernelSide() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_.get(), &one, sizeof one);
  thread_.join();
  const std::lock_guard lock(nic_.mutex());
  nic_.set_kernel_side({});
}

void KernelSide::end_connections() {
  constexpr int kMostWaits = 1000;
  const IpAddress own = nic_.interface().address;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (is_connection_from(fd, own)) shutdown(fd, SHUT_WR);
  }
  for (int i = 0; i < kMostWaits && any_unheard(own); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void KernelSide::run() {
  std::array<uint8_t, 1 << 16> frame;
  pollfd fds[2] = {{stop_.get(), POLLIN, 0}, {tap_.get(), POLLIN, 0}};
  for (;;) {
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[0].revents != 0) return;
    const ssize_t got = read(tap_.get(), frame.data(), frame.size());
    if (got <= 0) continue;
    const std::lock_guard lock(nic_.mutex());
    nic_.send_from_kernel({frame.data(), static_cast<size_t>(got)});
  }
}

}  // namespace understudy::soft_nic
