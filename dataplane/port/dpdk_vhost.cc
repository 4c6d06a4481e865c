#include "dataplane/port/dpdk_vhost.h"

#include <rte_vhost.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>

#include "dataplane/port/dpdk_log.h"
#include "dataplane/port/runtime_folder.h"

namespace understudy {
namespace {

constexpr const char* kTemporarySuffix = ".new";

/// Feature bits of virtio network devices (OASIS virtio 1.1, sections 5.1.3 and 6);
/// <linux/virtio_net.h> does not compile as C++.
constexpr unsigned kCsum = 0, kGuestCsum = 1, kCtrlGuestOffloads = 2, kGso = 6;
constexpr unsigned kGuestTso4 = 7, kGuestTso6 = 8, kGuestEcn = 9, kGuestUfo = 10;
constexpr unsigned kHostTso4 = 11, kHostTso6 = 12, kHostEcn = 13, kHostUfo = 14;
constexpr unsigned kCtrlVq = 17, kCtrlRx = 18, kCtrlVlan = 19, kCtrlRxExtra = 20;
constexpr unsigned kGuestAnnounce = 21, kMq = 22, kCtrlMacAddr = 23, kRingPacked = 34;

constexpr uint64_t bits(std::initializer_list<unsigned> list) {
  uint64_t mask = 0;
  for (const unsigned bit : list) mask |= uint64_t{1} << bit;
  return mask;
}

/// Control queue, announcement, several queues: DPDK offers them and leaves the work to QEMU, so
/// User-mode Linux waits for ever. Packed ring: there no packet moves.
constexpr uint64_t kNotServed = bits(
    {kCtrlVq, kCtrlRx, kCtrlVlan, kCtrlRxExtra, kGuestAnnounce, kMq, kCtrlMacAddr, kRingPacked});
/// Checksums and segments left to the device: nobody behind this port would complete them, and the
/// guest's TCP would send what its peers must drop.
constexpr uint64_t kOffloads =
    bits({kCsum, kGuestCsum, kCtrlGuestOffloads, kGso, kGuestTso4, kGuestTso6, kGuestEcn, kGuestUfo,
          kHostTso4, kHostTso6, kHostEcn, kHostUfo});

bool somebody_listens(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

}  // namespace

VhostSocket::~VhostSocket() {
  if (published_) unlink(path_.c_str());
}

Result<void> VhostSocket::prepare(const std::string& port, DpdkDevice& device) {
  namespace fs = std::filesystem;
  if (const std::string client = device.arg("client"); !client.empty() && client != "0") return {};
  const std::string path = device.arg("iface");
  const std::string where = "port \"" + port + "\": vhost socket " + path + ": ";
  const size_t room = sizeof(sockaddr_un::sun_path) - 1 - std::strlen(kTemporarySuffix);
  if (path.size() > room) {
    return fail(where + "path is too long for a socket, at most " + std::to_string(room) +
                " characters; choose a shorter one");
  }
  const fs::path parent = fs::absolute(path).parent_path();
  if (parent == runtime_folder()) {
    if (auto made = make_runtime_folder(); !made) return fail(where + made.error().text);
  }
  std::error_code error;
  if (!fs::is_directory(parent, error)) {
    return fail(where + "no directory " + parent.string() + "; create it or choose another");
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    return fail(where + "no permission to create a file in " + parent.string() +
                "; choose a directory of yours");
  }
  const fs::file_status status = fs::symlink_status(path, error);
  if (fs::exists(status) && !fs::is_socket(status)) {
    return fail(where + "is a file that is no socket; choose another path");
  }
  if (fs::exists(status) && somebody_listens(path)) {
    return fail(where + "another program listens there; stop it or choose another path");
  }
  const std::string temporary = path + kTemporarySuffix;
  if (unlink(temporary.c_str()) != 0 && errno != ENOENT) {
    return fail(where + "cannot remove " + temporary + ": " + std::strerror(errno));
  }
  device.set_arg("iface", temporary);
  path_ = path;
  temporary_ = temporary;
  return {};
}

Result<void> VhostSocket::publish(const std::string& port) {
  if (!server()) return {};
  const std::string where = "port \"" + port + "\": vhost socket " + path_ + ": ";
  if (rte_vhost_driver_disable_features(temporary_.c_str(), kNotServed | kOffloads) != 0) {
    return fail(where + "cannot set its features" + take_dpdk_complaint());
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return fail(where + std::strerror(errno));
  }
  published_ = true;
  return {};
}

}  // namespace understudy
