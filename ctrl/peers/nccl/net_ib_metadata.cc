#include "ctrl/peers/nccl/net_ib_metadata.h"

#include <algorithm>
#include <cstring>

#include "ctrl/peers/nccl/bytes.h"

namespace understudy {
namespace {

size_t place_in(const NetIbColumn& column, size_t q) { return column.at + q * column.stride; }

std::string devices_text(int32_t devices) {
  return "the real rank's connection has " + std::to_string(devices) +
         " devices, one is done here: set NCCL_IB_MERGE_NICS=0 and NCCL_IB_MERGE_VFS=0 on the real "
         "node, or name one port in NCCL_IB_HCA";
}

}  // namespace

Result<NetIbEnd> read_net_ib(const NetIbLayout& layout, std::span<const uint8_t> bytes) {
  NetIbEnd end;
  if (layout.devices != 0) end.devices = nccl_i32(bytes, layout.devices);
  if (end.devices < 1 || end.devices > layout.most_devices) {
    return fail("its number of devices is " + std::to_string(end.devices) + ", NCCL has 1 to " +
                std::to_string(layout.most_devices));
  }
  if (end.devices > 1) return fail(devices_text(end.devices));
  bool over = false;
  for (size_t q = 0; q < kNetIbQueuePairs; ++q) {
    const auto qpn = nccl_u32(bytes, place_in(layout.qpn, q));
    over |= qpn == 0;
    if (qpn == 0) continue;
    if (over || qpn > 0xffffff) {
      return fail("its queue pair " + std::to_string(q) + " has the number " + std::to_string(qpn));
    }
    if (layout.device_index.exists() && nccl_i32(bytes, place_in(layout.device_index, q)) != 0) {
      return fail("its queue pair " + std::to_string(q) +
                  " is on another device than its only one");
    }
    end.qpns.push_back(qpn);
  }
  if (end.qpns.empty()) return fail("it names no queue pair");
  const auto further = bytes.subspan(layout.resiliency, layout.resiliency_bytes);
  end.further_queue_pairs = std::ranges::any_of(further, [](uint8_t b) { return b != 0; });
  end.lid = nccl_u32(bytes, layout.lid);
  end.port = bytes[layout.port];
  end.link_layer = bytes[layout.link_layer];
  if (end.link_layer != kLinkEthernet) {
    return fail(
        end.link_layer == kLinkInfiniband
            ? "its link layer is InfiniBand, here it is Ethernet (RoCE): name a RoCE device "
              "in NCCL_IB_HCA"
            : "its link layer is " + std::to_string(end.link_layer) + ", NCCL has 1 and 2");
  }
  end.mtu = nccl_i32(bytes, layout.mtu);
  if (end.mtu < 1 || end.mtu > 5) {
    return fail("its path MTU is " + std::to_string(end.mtu) + ", ibverbs has 1 to 5");
  }
  end.gid = IpAddress::v6_bytes(bytes.data() + layout.gid);
  end.rkey = nccl_u32(bytes, layout.rkey);
  end.address = nccl_u64(bytes, layout.address);
  if (layout.traffic_class != 0) end.traffic_class = nccl_i32(bytes, layout.traffic_class);
  if (end.traffic_class < 0 || end.traffic_class > 255) {
    return fail("its traffic class is " + std::to_string(end.traffic_class));
  }
  return end;
}

void write_net_ib(const NetIbLayout& layout, const NetIbEnd& end, std::span<uint8_t> bytes) {
  for (size_t q = 0; q < kNetIbQueuePairs; ++q) {
    put_nccl_u32(bytes, place_in(layout.qpn, q), q < end.qpns.size() ? end.qpns[q] : 0);
    if (layout.ece.exists()) std::memset(bytes.data() + place_in(layout.ece, q), 0, 12);
    if (layout.ece_supported.exists()) put_nccl_i32(bytes, place_in(layout.ece_supported, q), 0);
    if (layout.device_index.exists()) put_nccl_i32(bytes, place_in(layout.device_index, q), 0);
  }
  std::ranges::fill(bytes.subspan(layout.resiliency, layout.resiliency_bytes), uint8_t{0});
  // Other devices are not looked at.
  put_nccl_u32(bytes, layout.lid, end.lid);
  bytes[layout.port] = end.port;
  put_nccl_i32(bytes, layout.mtu, end.mtu);
  bytes[layout.link_layer] = end.link_layer;
  std::ranges::copy(end.gid.gid(), bytes.begin() + layout.gid);
  put_nccl_u32(bytes, layout.rkey, end.rkey);
  if (layout.remote_gid != 0) std::memset(bytes.data() + layout.remote_gid, 0, 16);
  put_nccl_u64(bytes, layout.address, end.address);
  if (layout.devices != 0) put_nccl_i32(bytes, layout.devices, end.devices);
  if (layout.traffic_class != 0) put_nccl_i32(bytes, layout.traffic_class, end.traffic_class);
}

void name_net_ib(const NetIbLayout& layout, const std::string& name, std::span<uint8_t> bytes) {
  if (layout.device_name_bytes == 0) return;
  const auto to = bytes.subspan(layout.device_name, layout.device_name_bytes);
  std::ranges::fill(to, uint8_t{0});
  std::memcpy(to.data(), name.data(), std::min(name.size(), to.size() - 1));
}

}  // namespace understudy
