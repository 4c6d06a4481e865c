#include "tools/soft_nic/device/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "dataplane/base/try.h"
#include "tools/soft_nic/base/monotonic.h"
#include "tools/soft_nic/base/settings.h"
#include "tools/soft_nic/device/driver.h"
#include "tools/soft_nic/device/kernel_side.h"
#include "tools/soft_nic/device/nic.h"
#include "tools/soft_nic/port/packet_socket.h"
#include "tools/soft_nic/port/vhost_port.h"

namespace understudy::soft_nic {

namespace {

struct Device {
  Settings settings;
  Interface interface;
  ibv_device ibv{};
  /// Where rdma-core keeps its provider's table: providers (mlx5dv_is_supported(), which NCCL and
  /// UCX ask) read it to see whether a device is theirs.
  const void* provider_table = nullptr;
};

/// A TAP's frames get the tag on their way to the socket: it is in the VLAN as it stands.
Result<Interface> find(const Settings& settings) {
  return settings.vlan && settings.socket.empty()
             ? find_vlan_interface(settings.interface, settings.addresses, *settings.vlan)
             : find_interface(settings.interface, settings.addresses);
}

Result<std::unique_ptr<Device>> make_device() {
  auto made = std::make_unique<Device>();
  auto settings = read_settings([](const char* name) { return std::getenv(name); });
  if (!settings) return fail(settings.error().text);
  made->settings = std::move(*settings);
  if (made->settings.interface.empty() && !made->settings.socket.empty()) {
    made->interface = bare_interface(made->settings.addresses);
  } else {
    auto interface = find(made->settings);
    if (!interface) return fail(interface.error().text);
    made->interface = std::move(*interface);
  }
  made->interface.vlan = made->settings.vlan;
  ibv_device& ibv = made->ibv;
  ibv.node_type = IBV_NODE_CA;
  ibv.transport_type = IBV_TRANSPORT_IB;
  std::strncpy(ibv.name, made->settings.name.c_str(), sizeof ibv.name - 1);
  // No number of uverbs: a device of the kernel's may have it.
  std::strncpy(ibv.dev_name, made->settings.name.c_str(), sizeof ibv.dev_name - 1);
  // Nothing of it is in sysfs; programs that look there find no file, as for any unknown device.
  std::snprintf(ibv.dev_path, sizeof ibv.dev_path, "/sys/class/infiniband_verbs/%s", ibv.dev_name);
  std::snprintf(ibv.ibdev_path, sizeof ibv.ibdev_path, "/sys/class/infiniband/%s", ibv.name);
  return made;
}

Result<std::unique_ptr<FramePort>> open_port(const Device& device) {
  const Interface& interface = device.interface;
  if (device.settings.socket.empty()) return PacketSocket::open(interface);
  const uint32_t longest =
      std::max(interface.mtu + kEthernetBytes, longest_roce_frame(interface.mtu));
  return VhostPort::open(device.settings.socket, longest);
}

/// Of a port that the kernel does not have itself, where the user wants one; else none.
Result<UniqueFd> open_tap(const Device& device) {
  if (device.settings.socket.empty() || device.settings.interface.empty()) return UniqueFd();
  return KernelSide::attach(device.settings.interface);
}

std::mutex mutex;  // of what follows
// Never torn down: programs' threads may still be in here when the process ends.
Device* device = nullptr;
Nic* nic = nullptr;
Driver* driver = nullptr;
KernelSide* kernel_side = nullptr;
pid_t owner = 0;
std::atomic<const ibv_device*> shown{nullptr};  // `device`'s, read without the lock

void say(const std::string& what) {
  std::fprintf(stderr, "understudy soft NIC: %s\n", what.c_str());
}

/// Programs on one address must not have one number twice.
uint32_t draw_first_qpn() {
  uint32_t drawn = 0;
  if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) drawn = static_cast<uint32_t>(getpid());
  constexpr uint32_t kRanges = (kQpnMask + 1) / Nic::kQueuePairs;
  return (1 + drawn % (kRanges - 1)) * Nic::kQueuePairs;
}

// Both with the mutex held.

Result<void> find_device() {
  if (device != nullptr) return {};
  auto made = TRY(make_device());
  device = made.release();
  shown.store(&device->ibv, std::memory_order_release);
  return {};
}

Result<void> open_nic() {
  // A child of fork() that opens the device gets one of its own; the parent's stays the parent's.
  if (nic != nullptr && owner == getpid()) return {};
  auto port = TRY(open_port(*device));
  auto tap = TRY(open_tap(*device));
  nic = new Nic(device->interface, device->settings.window, draw_first_qpn(), std::move(port),
                monotonic_now);
  if (tap.valid()) kernel_side = new KernelSide(*nic, std::move(tap));
  driver = new Driver(*nic);
  owner = getpid();
  return {};
}

/// Programs meet by TCP before they open a device, so a TAP is served from the begin on - in those
/// that have to do with verbs, not in the shells around them: they are linked to libibverbs, or
/// have loaded us in its place. What fails is said when the device is used.
__attribute__((constructor)) void serve_the_tap() {
  const char* text = std::getenv(kDeviceVariable);
  if (text == nullptr || std::strstr(text, kTapOption) == nullptr) return;
  Dl_info self{}, used{};
  if (dladdr(&device, &self) == 0 || self.dli_fname == nullptr) return;
  // Both may be there: the one that is preloaded is used.
  const void* call = dlsym(RTLD_DEFAULT, "ibv_open_device");
  if (call != nullptr && dladdr(call, &used) != 0 && used.dli_fbase != self.dli_fbase) return;
  const bool in_its_place = std::strstr(self.dli_fname, "libibverbs.so") != nullptr;
  if (!in_its_place && dlsym(RTLD_NEXT, "ibv_open_device") == nullptr) return;
  const std::lock_guard guard(mutex);
  if (find_device()) (void)open_nic();
}

/// A child of fork() must not find it held by a thread that it has not.
__attribute__((constructor)) void guard_forks() {
  pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
}

__attribute__((destructor)) void leave_the_tap() {
  if (kernel_side != nullptr && owner == getpid()) kernel_side->end_connections();
}

}  // namespace

ibv_device* the_device() {
  const std::lock_guard guard(mutex);
  if (const auto found = find_device(); !found) {
    say(found.error().text);
    errno = ENODEV;
    return nullptr;
  }
  return &device->ibv;
}

const ibv_device* device_if_made() { return shown.load(std::memory_order_acquire); }

Result<Nic*> the_nic() {
  if (the_device() == nullptr) return fail("no device");
  const std::lock_guard guard(mutex);
  if (const auto opened = open_nic(); !opened) {
    say(opened.error().text);
    return fail(opened.error().text);
  }
  return nic;
}

__be64 device_guid() {
  const std::lock_guard guard(mutex);
  const auto& mac = device->interface.mac.bytes;
  // EUI-64 as Linux makes it of a MAC (RFC 4291, appendix A).
  const uint8_t eui[8] = {
      static_cast<uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
  __be64 guid;
  std::memcpy(&guid, eui, sizeof guid);
  return guid;
}

}  // namespace understudy::soft_nic
