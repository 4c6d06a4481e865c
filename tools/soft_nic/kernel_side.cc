#include "tools/soft_nic/kernel_side.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "tools/soft_nic/nic.h"
#include "tools/soft_nic/signals.h"

namespace understudy::soft_nic {

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
  if (ioctl(tap.get(), TUNSETIFF, &request) != 0) {
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
