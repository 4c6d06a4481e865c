#include "ctrl/peers/nccl/transport/net_ib_metadata.h"

#include <algorithm>
#include <cstring>

#include "ctrl/peers/nccl/bootstrap/bytes.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

size_t place_in(const NetIbColumn& column, size_t q) { return column.at + q * column.stride; }

/// Of a device's field, as the first one's.
size_t at_device(const NetIbLayout& layout, size_t field, size_t device) {
  return field + device * layout.device_bytes;
}

Result<NetIbDevice> read_device(const NetIbLayout& layout, std::span<const uint8_t> bytes,
                                size_t d) {
  NetIbDevice device;
  device.lid = nccl_u32(bytes, at_device(layout, layout.lid, d));
  device.port = bytes[at_device(layout, layout.port, d)];
  device.link_layer = bytes[at_device(layout, layout.link_layer, d)];
  if (device.link_layer == kLinkInfiniband) {
    return fail(
        "its link layer is InfiniBand, here it is Ethernet (RoCE): name a RoCE device in "
        "NCCL_IB_HCA");
  }
  if (device.link_layer != kLinkEthernet) {
    return fail("its link layer is " + std::to_string(device.link_layer) + ", NCCL has 1 and 2");
  }
  device.mtu = nccl_i32(bytes, at_device(layout, layout.mtu, d));
  if (device.mtu < 1 || device.mtu > 5) {
    return fail("its path MTU is " + std::to_string(device.mtu) + ", ibverbs has 1 to 5");
  }
  device.gid = IpAddress::v6_bytes(bytes.data() + at_device(layout, layout.gid, d));
  device.rkey = nccl_u32(bytes, at_device(layout, layout.rkey, d));
  return device;
}

constexpr size_t kFurtherBytes = 24, kFurtherDevice = 20;

/// Entries of further queue pairs, from number `first` on; none behind the first that is empty.
Result<std::vector<Qpn>> read_further(const NetIbLayout& layout, std::span<const uint8_t> bytes,
                                      size_t first, int32_t devices) {
  std::vector<Qpn> out;
  for (size_t i = 0; i < layout.most_devices; ++i) {
    const size_t at = (first + i) * kFurtherBytes;
    if (at + kFurtherBytes > layout.resiliency_bytes) break;
    const auto qpn = nccl_u32(bytes, layout.resiliency + at);
    if (qpn == 0) break;
    const auto device = nccl_i32(bytes, layout.resiliency + at + kFurtherDevice);
    if (qpn > 0xffffff || device < 0 || device >= devices) {
      return fail("its queue pair " + std::to_string(i) + " for port failover has the number " +
                  std::to_string(qpn) + " and is on device " + std::to_string(device) + " of " +
                  std::to_string(devices));
    }
    out.push_back(qpn);
  }
  return out;
}

void write_further(const NetIbLayout& layout, const std::vector<Qpn>& qpns, size_t first,
                   size_t devices, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < qpns.size(); ++i) {
    const size_t at = layout.resiliency + (first + i) * kFurtherBytes;
    put_nccl_u32(bytes, at, qpns[i]);
    put_nccl_i32(bytes, at + kFurtherDevice, static_cast<int32_t>(i % devices));
  }
}

void write_device(const NetIbLayout& layout, const NetIbDevice& device, size_t d,
                  std::span<uint8_t> bytes) {
  put_nccl_u32(bytes, at_device(layout, layout.lid, d), device.lid);
  bytes[at_device(layout, layout.port, d)] = device.port;
  put_nccl_i32(bytes, at_device(layout, layout.mtu, d), device.mtu);
  bytes[at_device(layout, layout.link_layer, d)] = device.link_layer;
  const auto gid = device.gid.gid();
  std::memcpy(bytes.data() + at_device(layout, layout.gid, d), gid.data(), gid.size());
  put_nccl_u32(bytes, at_device(layout, layout.rkey, d), device.rkey);
  if (layout.remote_gid != 0) {
    std::memset(bytes.data() + at_device(layout, layout.remote_gid, d), 0, gid.size());
  }
}

}  // namespace

Result<NetIbEnd> read_net_ib(const NetIbLayout& layout, std::span<const uint8_t> bytes,
                             uint32_t queue_pairs) {
  NetIbEnd end;
  const int32_t devices = layout.devices == 0 ? 1 : nccl_i32(bytes, layout.devices);
  if (devices < 1 || devices > layout.most_devices) {
    return fail("its number of devices is " + std::to_string(devices) + ", NCCL has 1 to " +
                std::to_string(layout.most_devices));
  }
  bool over = false;
  const size_t written =
      layout.cleared
          ? kNetIbQueuePairs
          : std::min<size_t>(static_cast<size_t>(devices) * queue_pairs, kNetIbQueuePairs);
  for (size_t q = 0; q < written; ++q) {
    const auto qpn = nccl_u32(bytes, place_in(layout.qpn, q));
    over |= qpn == 0;
    if (qpn == 0) continue;
    if (over || qpn > 0xffffff) {
      return fail("its queue pair " + std::to_string(q) + " has the number " + std::to_string(qpn));
    }
    const int32_t device =
        layout.device_index.exists() ? nccl_i32(bytes, place_in(layout.device_index, q)) : 0;
    if (device < 0 || device >= devices) {
      return fail("its queue pair " + std::to_string(q) + " is on device " +
                  std::to_string(device) + " of " + std::to_string(devices));
    }
    end.qpns.push_back(qpn);
    end.device_of.push_back(static_cast<uint8_t>(device));
  }
  if (end.qpns.empty()) return fail("it names no queue pair");
  end.probing = TRY(read_further(layout, bytes, 0, devices));
  end.recovery = TRY(read_further(layout, bytes, layout.most_devices, devices));
  for (size_t d = 0; d < static_cast<size_t>(devices); ++d) {
    auto device = TRY(read_device(layout, bytes, d));
    end.devices.push_back(device);
    if (device.mtu != end.devices.front().mtu) {
      return fail("its devices have different path MTUs, " +
                  std::to_string(path_mtu_bytes(end.devices.front().mtu)) + " and " +
                  std::to_string(path_mtu_bytes(device.mtu)) + " bytes");
    }
  }
  end.address = nccl_u64(bytes, layout.address);
  if (layout.traffic_class != 0) end.traffic_class = nccl_i32(bytes, layout.traffic_class);
  if (end.traffic_class < 0 || end.traffic_class > 255) {
    return fail("its traffic class is " + std::to_string(end.traffic_class));
  }
  return end;
}

void write_net_ib(const NetIbLayout& layout, const NetIbEnd& end, std::span<uint8_t> bytes) {
  for (size_t q = 0; q < kNetIbQueuePairs; ++q) {
    const bool exists = q < end.qpns.size();
    put_nccl_u32(bytes, place_in(layout.qpn, q), exists ? end.qpns[q] : 0);
    if (layout.ece.exists()) std::memset(bytes.data() + place_in(layout.ece, q), 0, 12);
    if (layout.ece_supported.exists()) put_nccl_i32(bytes, place_in(layout.ece_supported, q), 0);
    if (layout.device_index.exists()) {
      put_nccl_i32(bytes, place_in(layout.device_index, q), exists ? end.device_of[q] : 0);
    }
  }
  std::ranges::fill(bytes.subspan(layout.resiliency, layout.resiliency_bytes), uint8_t{0});
  write_further(layout, end.probing, 0, end.devices.size(), bytes);
  write_further(layout, end.recovery, layout.most_devices, end.devices.size(), bytes);
  for (size_t d = 0; d < end.devices.size(); ++d) write_device(layout, end.devices[d], d, bytes);
  // Of more devices that were copied nothing stays.
  for (size_t d = end.devices.size(); d < layout.most_devices; ++d) {
    const auto entry = bytes.subspan(at_device(layout, layout.lid, d), layout.device_bytes);
    std::ranges::fill(entry, uint8_t{0});
  }
  put_nccl_u64(bytes, layout.address, end.address);
  if (layout.devices != 0) {
    put_nccl_i32(bytes, layout.devices, static_cast<int32_t>(end.devices.size()));
  }
  if (layout.traffic_class != 0) put_nccl_i32(bytes, layout.traffic_class, end.traffic_class);
}

std::string name_in_net_ib(const NetIbLayout& layout, std::span<const uint8_t> bytes) {
  const auto from = bytes.subspan(layout.device_name, layout.device_name_bytes);
  return {from.begin(), std::ranges::find(from, uint8_t{0})};
}

void name_net_ib(const NetIbLayout& layout, const std::string& name, std::span<uint8_t> bytes) {
  if (layout.device_name_bytes == 0) return;
  const auto to = bytes.subspan(layout.device_name, layout.device_name_bytes);
  std::ranges::fill(to, uint8_t{0});
  std::memcpy(to.data(), name.data(), std::min(name.size(), to.size() - 1));
}

}  // namespace understudy
