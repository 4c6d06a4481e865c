#include "dataplane/port/dpdk_device.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "dataplane/base/try.h"
#include "dataplane/port/runtime_folder.h"

namespace understudy {
namespace {

constexpr std::array<std::string_view, 7> kDrivers = {
    "net_vhost", "net_tap", "net_af_packet", "net_memif", "net_ring", "net_pcap", "net_null"};

std::string in_port(const std::string& port) { return "port \"" + port + "\": "; }

/// "3b:00.0" and "0000:3B:00.0" as sysfs writes it; empty when `text` is no PCI address.
std::string pci_address(std::string text) {
  if (std::count(text.begin(), text.end(), ':') == 1) text.insert(0, "0000:");
  static constexpr std::string_view kShape = "xxxx:xx:xx.x";
  if (text.size() != kShape.size()) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (kShape[i] == 'x' ? std::isxdigit(c) == 0 : c != static_cast<unsigned char>(kShape[i]))
      return {};
    text[i] = static_cast<char>(std::tolower(c));
  }
  return text;
}

bool has_capability(unsigned capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (syscall(SYS_capget, &header, data.data()) != 0) return false;
  return (data[capability / 32].effective >> (capability % 32) & 1U) != 0;
}

Result<void> check_pci(const std::string& where, const std::string& address) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path device = "/sys/bus/pci/devices/" + address;
  if (!fs::exists(device, error)) {
    return fail(where + "no such device " + address + "; `lspci -D` lists what is there");
  }
  const std::string driver = fs::read_symlink(device / "driver", error).filename();
  // mlx4 and mlx5 share the device with the kernel; every other needs a user-space driver.
  static constexpr std::array<std::string_view, 6> kUsable = {
      "vfio-pci", "uio_pci_generic", "igb_uio", "mlx4_core", "mlx5_core", "mana"};
  if (std::find(kUsable.begin(), kUsable.end(), driver) != kUsable.end()) return {};
  return fail(where + address + " is " +
              (driver.empty() ? "bound to no driver" : "in use by the kernel's driver " + driver) +
              "; hand it to DPDK with `dpdk-devbind.py --bind=vfio-pci " + address + "`");
}

Result<void> find_socket(const std::string& port, const std::string& text, DpdkDevice& device) {
  const std::string socket = device.arg("iface");
  if (socket.empty()) {
    return fail(in_port(port) + "device \"" + text +
                "\" names no socket; write \"net_vhost0,iface=/path/to/socket,queues=1\"");
  }
  if (socket.find('/') == std::string::npos) {
    device.set_arg("iface", runtime_folder() + "/" + socket);
  }
  return {};
}

}  // namespace

std::string DpdkDevice::arg(const std::string& key) const {
  const std::string all = "," + args + ",";
  const size_t at = all.find("," + key + "=");
  if (at == std::string::npos) return {};
  const size_t from = at + key.size() + 2;
  return all.substr(from, all.find(',', from) - from);
}

void DpdkDevice::set_arg(const std::string& key, const std::string& value) {
  const std::string all = "," + args;
  const size_t at = all.find("," + key + "=") + key.size() + 1;  // of the value, in args
  const size_t end = args.find(',', at);
  args.replace(at, end == std::string::npos ? end : end - at, value);
}

Result<DpdkDevice> parse_dpdk_device(const std::string& port, const std::string& text) {
  DpdkDevice device;
  const size_t comma = text.find(',');
  device.name = text.substr(0, comma);
  if (comma != std::string::npos) device.args = text.substr(comma + 1);
  if (const std::string address = pci_address(device.name); !address.empty()) {
    device.pci = true;
    device.name = address;
    return device;
  }
  for (const std::string_view driver : kDrivers) {
    const std::string_view name = device.name;
    if (!name.starts_with(driver)) continue;
    const std::string_view index = name.substr(driver.size());
    if (index.empty() ||
        !std::all_of(index.begin(), index.end(), [](unsigned char c) { return std::isdigit(c); })) {
      continue;
    }
    device.driver = driver;
    if (driver == "net_vhost") TRY(find_socket(port, text, device));
    return device;
  }
  std::string known;
  for (const std::string_view driver : kDrivers) {
    if (!known.empty()) known += ", ";
    known += driver;
    known += "0";
  }
  return fail(in_port(port) + "device \"" + text +
              "\" is neither a PCI address (0000:3b:00.0) nor a virtual device known here (" +
              known + " ..., then \",key=value\" arguments)");
}

Result<void> check_dpdk_device(const std::string& port, const DpdkDevice& device) {
  const std::string where = in_port(port);
  if (device.pci) return check_pci(where, device.name);
  if (device.driver == "net_tap") {
    if (access("/dev/net/tun", R_OK | W_OK) != 0) {
      return fail(where + "device " + device.name + " needs /dev/net/tun: " + std::strerror(errno) +
                  "; load the module tun and run as root");
    }
    if (!has_capability(CAP_NET_ADMIN)) {
      return fail(where + "no permission to make the TAP interface of " + device.name +
                  " (CAP_NET_ADMIN); run as root, or use net_vhost0,iface=... which needs none");
    }
  }
  if (device.driver == "net_af_packet" && !has_capability(CAP_NET_RAW)) {
    return fail(where + "no permission to open raw sockets for " + device.name +
                " (CAP_NET_RAW); run as root, or use net_vhost0,iface=... which needs none");
  }
  return {};
}

}  // namespace understudy
