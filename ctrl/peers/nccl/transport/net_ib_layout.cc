#include "ctrl/peers/nccl/transport/net_ib_layout.h"

#include <algorithm>
#include <array>

namespace understudy {
namespace {

// CTS entries (docs/nccl 3.1), from ncclIbSendFifo; 2.18 has fewer slots, and instead of the sizes
// of several receives a mask.
constexpr CtsLayout kCts18{.slots = 64,
                           .entry_bytes = 32,
                           .size_bytes = 4,
                           .rkey_at = 12,
                           .requests_at = 16,
                           .tag_at = 20,
                           .index_at = 24,
                           .sizes_stride = 0};
constexpr CtsLayout kCts19{.entry_bytes = 32,
                           .size_bytes = 4,
                           .rkey_at = 12,
                           .requests_at = 16,
                           .tag_at = 20,
                           .index_at = 24};
constexpr CtsLayout kCts20{
    .size_bytes = 4, .rkey_at = 12, .requests_at = 20, .tag_at = 24, .index_at = 32};
constexpr CtsLayout kCts24{};
constexpr CtsLayout kCts29{.big_endian_immediate = true,
                           .sizes_stride = 160,
                           .immediate_of_first = true,
                           .turns_by_one = true};
constexpr CtsLayout kCts30{.requests_at = 48,
                           .tag_at = 52,
                           .index_at = 56,
                           .big_endian_immediate = true,
                           .sizes_stride = 160,
                           .immediate_of_first = true};

/// From 2.20 on: entries of queue pairs, of devices (the first one at `devs`), then their names.
constexpr NetIbLayout several_devices(NcclVersion since, std::string_view name, uint16_t devices,
                                      uint16_t devs, uint16_t name_bytes, uint16_t address,
                                      uint16_t bytes) {
  NetIbLayout l;
  l.since = since;
  l.cleared = since >= NcclVersion{24};
  l.name = name;
  l.most_devices = devices;
  l.bytes = bytes;
  l.qpn = {0, 24};
  l.ece = {4, 24};
  l.ece_supported = {16, 24};
  l.device_index = {20, 24};
  constexpr uint16_t kQueuePairBytes = kNetIbQueuePairs * 24;
  l.resiliency = kQueuePairBytes;
  l.resiliency_bytes = static_cast<uint16_t>(devs - kQueuePairBytes);
  l.device_bytes = 56;
  l.lid = devs;
  l.port = static_cast<uint16_t>(devs + 4);
  l.mtu = static_cast<uint16_t>(devs + 8);
  l.link_layer = static_cast<uint16_t>(devs + 12);
  l.gid = static_cast<uint16_t>(devs + 16);
  l.rkey = static_cast<uint16_t>(devs + 32);
  l.remote_gid = static_cast<uint16_t>(devs + 40);
  l.device_name = static_cast<uint16_t>(devs + devices * 56);
  l.device_name_bytes = name_bytes;
  l.address = address;
  l.devices = static_cast<uint16_t>(address + 8);
  return l;
}

constexpr NetIbLayout with(NetIbLayout l, uint16_t device_list, bool traffic_class, CtsLayout cts) {
  l.device_list_bytes = device_list;
  if (traffic_class) {
    l.traffic_class = static_cast<uint16_t>(l.devices + 4);
    l.service_level = static_cast<uint16_t>(l.devices + 8);
  }
  l.cts = cts;
  return l;
}

constexpr NetIbLayout layout_18() {
  NetIbLayout l;
  l.since = {18};
  l.name = "2.18";
  l.most_devices = 1;
  l.bytes = 552;
  l.cleared = false;
  l.qpn = {8, 4};
  l.port = 4;
  l.link_layer = 5;
  l.gid = 520;
  l.mtu = 536;
  l.rkey = 540;
  l.address = 544;
  l.split_data = true;
  l.cts = kCts18;
  return l;
}

constexpr NetIbLayout layout_19() {
  NetIbLayout l = layout_18();
  l.since = {19};
  l.name = "2.19";
  l.bytes = 2600;
  l.ece = {520, 12};
  l.ece_supported = {2056, 4};
  l.gid = 2568;
  l.mtu = 2584;
  l.rkey = 2588;
  l.address = 2592;
  l.cts = kCts19;
  return l;
}

constexpr NetIbLayout layout_30() {
  NetIbLayout l =
      with(several_devices({30}, "2.30 to 2.31", 8, 3456, 648, 4552, 4576), 37, true, kCts30);
  l.handle_bytes = 96;
  return l;
}

constexpr std::array kLayouts = {
    layout_18(),
    layout_19(),
    with(several_devices({20}, "2.20 to 2.23", 2, 3072, 130, 3320, 3336), 0, false, kCts20),
    with(several_devices({24}, "2.24 to 2.25", 4, 3072, 260, 3560, 3576), 20, false, kCts24),
    with(several_devices({26}, "2.26", 4, 3072, 260, 3560, 3584), 20, true, kCts24),
    with(several_devices({27}, "2.27 to 2.28", 4, 3072, 324, 3624, 3648), 20, true, kCts24),
    with(several_devices({29}, "2.29", 4, 3168, 324, 3720, 3744), 20, true, kCts29),
    layout_30(),
};
constexpr NetIbLayout kEarly29 =
    with(several_devices({29}, "2.29.2 to 2.29.3", 4, 3072, 324, 3624, 3648), 20, true, kCts29);

}  // namespace

const NetIbLayout& net_ib_layout(NcclVersion version) {
  const auto newer = std::ranges::find_if(
      kLayouts, [&](const NetIbLayout& layout) { return layout.since > version; });
  return newer == kLayouts.begin() ? kLayouts.front() : *std::prev(newer);
}

const NetIbLayout& early_net_ib_layout_2_29() { return kEarly29; }

}  // namespace understudy
