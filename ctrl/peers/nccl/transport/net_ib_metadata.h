// The metadata that both ends of a net_ib connection send each other (docs/nccl 2.3): what of it
// matters, as values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctrl/peers/nccl/transport/net_ib_layout.h"
#include "dataplane/base/address.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/result.h"

namespace understudy {

inline constexpr uint8_t kLinkInfiniband = 1, kLinkEthernet = 2;  ///< as ibverbs counts

/// One of the devices that make up an end's NIC: NCCL takes several ports for one device.
struct NetIbDevice {
  uint32_t lid = 0;
  uint8_t port = 1;  ///< of the device; the other end takes it for its own (docs/nccl 2.3, trap)
  int32_t mtu = 0;   ///< 1 to 5: 256 to 4096 bytes
  uint8_t link_layer = kLinkEthernet;
  IpAddress gid;
  Rkey rkey = 0;
};

/// One end. Queue pair q is on device q % devices.
struct NetIbEnd {
  std::vector<Qpn> qpns;
  std::vector<uint8_t> device_of;  ///< each of them
  std::vector<NetIbDevice> devices;
  uint64_t address = 0;
  int32_t traffic_class = 0;
  /// Of port failover, and recovery; none without (docs/nccl 3.15). The same rule of devices.
  std::vector<Qpn> probing, recovery;
};

/// `bytes`: as many as the layout says. `queue_pairs`: of each device, as the job has them: how many
/// there are can be read where the layout is cleared only. Errors say what is wrong in it, for
/// devices of Ethernet: all that is not done here is refused.
Result<NetIbEnd> read_net_ib(const NetIbLayout& layout, std::span<const uint8_t> bytes,
                             uint32_t queue_pairs);
/// Writes it over `bytes`, in which what else there is stays: extensions that are negotiated (ECE)
/// are switched off. Takes no more devices than the layout has.
void write_net_ib(const NetIbLayout& layout, const NetIbEnd& end, std::span<uint8_t> bytes);
/// The device's name, which is shown only; empty: the layout has none.
std::string name_in_net_ib(const NetIbLayout& layout, std::span<const uint8_t> bytes);
/// Writes it, shortened where it is too long, with zeros behind it.
void name_net_ib(const NetIbLayout& layout, const std::string& name, std::span<uint8_t> bytes);

/// Bytes of path MTU for 1 to 5 and back.
constexpr uint32_t path_mtu_bytes(int32_t mtu) { return 128u << mtu; }
constexpr int32_t path_mtu_code(uint32_t bytes) {
  int32_t code = 1;
  while (code < 5 && path_mtu_bytes(code) < bytes) ++code;
  return code;
}

}  // namespace understudy
