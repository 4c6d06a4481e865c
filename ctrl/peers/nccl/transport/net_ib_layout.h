// What net_ib exchanges to make a connection, and how its data phase is laid out, by release of
// NCCL (docs/nccl 2.2, 2.3, 3.1 and appendix D). Byte offsets; all integers are little-endian.
#pragma once

#include <cstdint>
#include <string_view>

#include "collective_model/nccl/operation.h"
#include "dataplane/nccl/cts_layout.h"

namespace understudy {

/// NCCL_SOCKET_MAGIC, which every net_ib handle names.
inline constexpr uint64_t kNetIbMagic = 0x564ab9f2fc4b9d6c;
/// ncclSocketTypeNetIb.
inline constexpr int32_t kNetIbSocketType = 4;

/// Where one of 128 values of queue pairs stands; no bytes: it does not exist.
struct NetIbColumn {
  uint16_t at = 0, stride = 0;
  constexpr bool exists() const { return stride != 0; }
};

struct NetIbLayout {
  NcclVersion since;      ///< the first release that has it
  std::string_view name;  ///< "2.24 to 2.25"
  uint16_t handle_bytes = 64;
  /// Of the device list that comes before the metadata: i32 number, i32 devices[]; 0: none.
  uint16_t device_list_bytes = 0;
  uint16_t most_devices = 2;

  // ncclIbConnectionMetadata.
  uint16_t bytes = 0;
  /// What NCCL does not fill in is zero (net_ib.cc from 2.24 on). Before, it is what its stack had.
  bool cleared = true;
  NetIbColumn qpn;            ///< u32
  NetIbColumn ece;            ///< 12 bytes
  NetIbColumn ece_supported;  ///< i32
  NetIbColumn device_index;   ///< i32
  /// Of further queue pairs, for port failover; all zeros without. As many entries as devices for
  /// probes, then, from 2.30 on, for recovery.
  uint16_t resiliency = 0, resiliency_bytes = 0;
  uint16_t lid = 0, port = 0, mtu = 0, link_layer = 0, gid = 0, rkey = 0;  ///< of the first device
  uint16_t remote_gid = 0;                                                 ///< scratch; 0: none
  uint16_t device_bytes = 0;  ///< of an entry; 0: there is one device
  uint16_t device_name = 0, device_name_bytes = 0;
  uint16_t address = 0;        ///< u64 of the memory that the other side writes to
  uint16_t devices = 0;        ///< i32; 0: there is one device
  uint16_t traffic_class = 0;  ///< i32; 0: each side takes its own
  uint16_t service_level = 0;  ///< i32

  bool split_data = false;  ///< default of NCCL_IB_SPLIT_DATA_ON_QPS
  CtsLayout cts;
};

inline constexpr uint32_t kNetIbQueuePairs = 128;  ///< NCCL_IB_MAX_QPS

/// Of the newest patch of a release, which is one of 2.18 to 2.31.
const NetIbLayout& net_ib_layout(NcclVersion version);
/// Of 2.29.2 and 2.29.3.
const NetIbLayout& early_net_ib_layout_2_29();

}  // namespace understudy
