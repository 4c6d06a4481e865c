#include "tools/soft_nic/device/kernel_side.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
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
#include <vector>

#include "tools/soft_nic/base/signals.h"
#include "tools/soft_nic/device/nic.h"

namespace understudy::soft_nic {

namespace {

bool is_connection_from(int fd, const Interface& own) {
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
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(at).sin_addr;
    return own.has(IpAddress::v4(ntohl(v4.s_addr)));
  }
  if (at.ss_family != AF_INET6) return false;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(at).sin6_addr;
  return own.has(IpAddress::v6_bytes(v6.s6_addr));  // or ::ffff:a.b.c.d
}

/// As proc(5) has it in net/tcp and net/tcp6: words of 32 bits in the machine's own order.
std::string hex_of(const IpAddress& address) {
  std::string out;
  for (size_t at = address.is_v4() ? 12 : 0; at < 16; at += sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, address.data() + at, sizeof word);
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08X", word);
    out += digits;
  }
  return out;
}

/// A connection from `own` in the network namespace has something that its peer has not
/// acknowledged, its end at the latest: those that programs have closed, too (proc(5), net/tcp).
bool any_unheard(const std::vector<std::string>& own) {
  enum State { kFinWait1 = 4, kLastAck = 9, kClosing = 11 };  // as Linux numbers them
  for (const char* name : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(name);
    std::string line;
    std::getline(file, line);  // the head
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string number, local, remote;
      int state = 0;
      words >> number >> local >> remote >> std::hex >> state;
      if (state != kFinWait1 && state != kLastAck && state != kClosing) continue;
      local.resize(std::min(local.find(':'), local.size()));
      // IPv4 addresses stand in the second file as the ends of longer ones.
      const auto is_local = [&](const std::string& address) { return local.ends_with(address); };
      if (std::ranges::any_of(own, is_local)) return true;
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
  nic_.set_kernel_side([this](std::span<const uint8_t> head, std::span<const uint8_t> rest) {
    const auto piece = [](std::span<const uint8_t> bytes) {
      return iovec{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    };
    const iovec pieces[] = {piece(head), piece(rest)};
    // A full TAP drops, as a full NIC does.
    [[maybe_unused]] const auto written = writev(tap_.get(), pieces, rest.empty() ? 1 : 2);
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
  const Interface& own = nic_.interface();
  std::vector<std::string> names;
  for (const IpPrefix& each : own.addresses) names.push_back(hex_of(each.address));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (is_connection_from(fd, own)) shutdown(fd, SHUT_WR);
  }
  for (int i = 0; i < kMostWaits && any_unheard(names); ++i) {
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
