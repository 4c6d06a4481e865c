// Opening and closing a DpdkPort: everything that can fail with a text.
#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <string_view>

#include "dataplane/base/try.h"
#include "dataplane/port/dpdk_log.h"
#include "dataplane/port/dpdk_port.h"

namespace understudy {
namespace {

/// Ring of a device and buffers of each direction: those of the ring and what waits outside of it.
struct Room {
  uint16_t ring;
  uint32_t buffers;
};
constexpr Room kRoom{1024, 2047};
/// Of drivers whose rings are the kernel's or the guest's: what they send is copied at once.
constexpr Room kCopyingRoom{256, 511};
constexpr std::array<std::string_view, 4> kCopyingDrivers = {"net_vhost", "net_af_packet",
                                                             "net_tap", "net_pcap"};
constexpr uint32_t kPoolCache = 128;
constexpr uint16_t kFrameRoom = 9216;  // bytes: any frame up to MTU 9000 in one piece
constexpr uint32_t kMinMtu = 1500;

std::string reason(int result) {
  return std::string(": ") + rte_strerror(std::abs(result)) + take_dpdk_complaint();
}

/// Without these the driver takes no frame of path MTU 4096.
void add_jumbo_arguments(DpdkDevice& device) {
  if (device.driver != "net_af_packet" || !device.arg("framesz").empty()) return;
  device.args += ",blocksz=8192,framesz=8192,framecnt=512";
}

/// What a driver's refusal usually means.
std::string advice(const DpdkDevice& device) {
  if (device.driver == "net_tap") return "; is the interface's name free?";
  if (device.driver == "net_af_packet") {
    return "; does the interface exist (iface=...), and is it up?";
  }
  if (device.driver == "net_pcap") return "; are the files or interfaces there and readable?";
  if (device.pci) return "; may this user open the device (/dev/vfio), and is the IOMMU on?";
  return "; are its arguments right?";
}

/// Largest MTU that the device says it takes: drivers state it in either of two ways.
uint32_t stated_max_mtu(const rte_eth_dev_info& info) {
  const uint32_t longest = info.max_rx_pktlen;
  const bool both = info.max_mtu != UINT16_MAX && longest > info.max_mtu;
  const uint32_t overhead = both ? longest - info.max_mtu : RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
  return std::max(kMinMtu, std::min<uint32_t>(info.max_mtu, longest - overhead));
}

/// Each buffer remembers what is zeros in it.
rte_mempool* make_pool(const std::string& name, uint32_t buffers, int socket) {
  constexpr uint16_t kOwn = RTE_ALIGN(sizeof(ZerosKept), RTE_MBUF_PRIV_ALIGN);
  rte_mempool* pool = rte_pktmbuf_pool_create(name.c_str(), buffers, kPoolCache, kOwn,
                                              RTE_PKTMBUF_HEADROOM + kFrameRoom, socket);
  if (pool == nullptr) return nullptr;
  const auto begin = [](rte_mempool*, void*, void* buffer, unsigned) {
    new (rte_mbuf_to_priv(static_cast<rte_mbuf*>(buffer))) ZerosKept;
  };
  rte_mempool_obj_iter(pool, begin, nullptr);
  return pool;
}

}  // namespace

std::string DpdkPort::where() const {
  return "port \"" + name_ + "\": device " + device_.name + ": ";
}

Result<std::unique_ptr<DpdkPort>> DpdkPort::open(const DpdkPortOptions& options) {
  std::unique_ptr<DpdkPort> port(new DpdkPort(options));
  TRY(port->attach(options.device));
  TRY(port->start());
  TRY(port->vhost_.publish(port->name_));
  return port;
}

Result<void> DpdkPort::attach(const std::string& device) {
  device_ = TRY(parse_dpdk_device(name_, device));
  TRY(check_dpdk_device(name_, device_));
  (void)take_dpdk_complaint();  // what was said before is not about this device
  if (!device_.pci) {
    if (device_.driver == "net_vhost") {
      TRY(vhost_.prepare(name_, device_));
    }
    add_jumbo_arguments(device_);
    if (rte_eth_dev_get_port_by_name(device_.name.c_str(), &id_) == 0) {
      return fail(where() + "is in use by another port; number its name differently (" +
                  device_.driver + "0, " + device_.driver + "1 ...)");
    }
    // Its return value is -1 for almost everything; the reason stands in the log.
    if (rte_eal_hotplug_add("vdev", device_.name.c_str(), device_.args.c_str()) != 0) {
      return fail(where() + "its driver refuses \"" + device + "\"" + take_dpdk_complaint() +
                  advice(device_));
    }
  }
  if (rte_eth_dev_get_port_by_name(device_.name.c_str(), &id_) != 0) {
    return fail(where() + "no DPDK driver took it" + take_dpdk_complaint() + advice(device_));
  }
  attached_ = true;
  return {};
}

Result<void> DpdkPort::start() {
  rte_eth_dev_info info{};
  if (const int r = rte_eth_dev_info_get(id_, &info); r != 0) {
    return fail(where() + "cannot be queried" + reason(r));
  }
  has_time_stamps_ = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0;
  rte_eth_conf conf{};
  if (stamps_) {
    TRY(prepare_time_stamps(conf.txmode.offloads));
  }
  // Network cards and net_tap mean the limit that they state, other virtual devices do not.
  conf.rxmode.mtu = std::min(std::max(mtu_, kMinMtu), stated_max_mtu(info));
  if ((device_.pci || device_.driver == "net_tap") && conf.rxmode.mtu < mtu_) {
    return fail(where() + "carries packets of at most " + std::to_string(conf.rxmode.mtu) +
                " bytes, but " + std::to_string(mtu_) + " are needed; lower [fabric] mtu");
  }
  if (const int r = rte_eth_dev_configure(id_, 1, 1, &conf); r != 0) {
    return fail(where() + "cannot be configured" + reason(r));
  }
  // Drivers of cards that the kernel keeps (mlx5) set its interface's MTU by this call only.
  if (const int r =
          device_.pci ? rte_eth_dev_set_mtu(id_, static_cast<uint16_t>(conf.rxmode.mtu)) : 0;
      r != 0 && r != -ENOTSUP) {
    return fail(where() + "does not take an MTU of " + std::to_string(conf.rxmode.mtu) + reason(r));
  }
  const bool copies = !device_.pci && std::ranges::count(kCopyingDrivers, device_.driver) != 0;
  const Room& room = copies ? kCopyingRoom : kRoom;
  uint16_t rx_ring = room.ring;
  uint16_t tx_ring = room.ring;
  if (const int r = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_ring, &tx_ring); r != 0) {
    return fail(where() + "takes no ring of " + std::to_string(room.ring) + reason(r));
  }
  const int socket = rte_eth_dev_socket_id(id_);
  rx_pool_ = make_pool("rx" + std::to_string(id_), room.buffers, socket);
  tx_pool_ = make_pool("tx" + std::to_string(id_), room.buffers, socket);
  if (rx_pool_ == nullptr || tx_pool_ == nullptr) {
    return fail(where() + "no memory for its buffers" + reason(rte_errno) + "; it takes " +
                std::to_string(kDpdkPortMegabytes) +
                " MB, of huge pages where there are any (/proc/meminfo)");
  }
  const auto on = static_cast<unsigned>(socket);
  int r = rte_eth_rx_queue_setup(id_, 0, rx_ring, on, nullptr, rx_pool_);
  if (r == 0) r = rte_eth_tx_queue_setup(id_, 0, tx_ring, on, nullptr);
  if (r != 0) return fail(where() + "cannot set up its queues" + reason(r));
  if (r = rte_eth_dev_start(id_); r != 0) return fail(where() + "does not start" + reason(r));
  started_ = true;
  // Emulated nodes have MAC addresses of their own. Virtual devices pass every frame anyway.
  if (r = rte_eth_promiscuous_enable(id_); r != 0 && device_.pci) {
    return fail(where() + "does not pass frames to other MAC addresses" + reason(r));
  }
  return {};
}

Result<void> DpdkPort::prepare_time_stamps(uint64_t& offloads) {
  if (!has_time_stamps_) {
    return fail(where() +
                "transmit_time_stamps: it offers none (a ConnectX card does with the "
                "argument tx_pp)");
  }
  if (const int r = rte_mbuf_dyn_tx_timestamp_register(&stamp_offset_, &stamp_flag_); r != 0) {
    return fail(where() + "transmit_time_stamps: no room in its buffers" + reason(r));
  }
  offloads |= RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
  return {};
}

DpdkPort::~DpdkPort() {
  rte_pktmbuf_free_bulk(rx_mbufs_.data(), received_);
  rte_pktmbuf_free_bulk(tx_mbufs_.data(), pending_);
  rte_pktmbuf_free(reserved_);
  if (started_) (void)rte_eth_dev_stop(id_);
  if (attached_) {
    if (device_.pci) {
      (void)rte_eth_dev_close(id_);
    } else {
      (void)rte_eal_hotplug_remove("vdev", device_.name.c_str());
    }
  }
  rte_mempool_free(rx_pool_);
  rte_mempool_free(tx_pool_);
}

}  // namespace understudy
