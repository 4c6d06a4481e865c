// Gives a TAP its carrier before anything reads it, then becomes a program:
//     understudy_hold_tap TAP PROGRAM [ARGUMENT...]
// A TAP of several queues has its carrier as long as one of them is attached or was and may be
// again. The program keeps such a queue, detached, so that no frame goes there; the soft NIC in it
// attaches one of its own when libibverbs is loaded. Status 125: it could not be started.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace {

constexpr int kNotStarted = 125;

int failed(const char* what) {
  std::fprintf(stderr, "understudy_hold_tap: %s: %s\n", what, std::strerror(errno));
  return kNotStarted;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: understudy_hold_tap TAP PROGRAM [ARGUMENT...]\n");
    return kNotStarted;
  }
  const int tap = open("/dev/net/tun", O_RDWR);  // the program has it, too
  if (tap < 0) return failed("/dev/net/tun");
  ifreq request{};
  std::string_view(argv[1]).copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_MULTI_QUEUE;
  if (ioctl(tap, TUNSETIFF, &request) != 0) return failed(argv[1]);
  request.ifr_flags = IFF_DETACH_QUEUE;
  if (ioctl(tap, TUNSETQUEUE, &request) != 0) return failed(argv[1]);
  execvp(argv[2], argv + 2);
  return failed(argv[2]);
}
