// Where the fields of NCCL's messages lie in each release, as found in debug information. Its own
// table, apart from the emulated ranks' one, so that an error in either shows.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace understudy::nccl_decode {

/// NCCL 2.minor.patch.
struct Release {
  int minor = 0, patch = 0;
  /// NCCL_VERSION_CODE.
  int code() const { return 20000 + minor * 100 + patch; }
  std::string text() const;
  static std::optional<Release> from_code(int64_t code);
  /// "2.28" and "2.28.9"; without a patch that of the layout table.
  static std::optional<Release> parse(std::string_view text);
  auto operator<=>(const Release&) const = default;
};

inline constexpr int kAbsent = -1;

/// ncclPeerInfo. Offsets; rank 0, cudaDev 4, nvmlDev 8, gdrSupport 12, hostHash 16, pidHash 24,
/// shmDev 32 and busId 40 never moved.
struct PeerInfoLayout {
  int bytes, gpu_uuid, comm, capability, memory, fabric, cu_mem, version, gin, cross_nic, mlo_part;
};

/// What is gathered after the topology search.
struct GraphInfoLayout {
  int bytes;
  int graphs, graph_bytes;  ///< number and size of the entries at 0
  int topo;                 ///< begin of ncclTopoRanks
  int channels;             ///< of its arrays
  bool cross_nic_ring;      ///< it begins with that
  int nvls_heads, cpu_arch, cpu_vendor, local_ranks, p2p_channels, nic_fused;
  int p2p_max_peers, min_net_bandwidth, net_devices, net_bandwidth, coll_net_devices, all_nvlink;
  /// Where array `index` of ncclTopoRanks begins: ringRecv, ringSend, ringPrev, ringNext,
  /// treeToParent, treeToChild0, treeToChild1, nvlsHeads.
  constexpr int array(int index) const {
    return topo + (cross_nic_ring ? 4 : 0) + index * channels * 4;
  }
};

/// What net_ib exchanges over TCP. `queue_pairs`: of 24-byte entries, or, in releases before 2.20,
/// of 4-byte numbers.
struct IbLayout {
  int bytes, queue_pairs, resiliency, resiliency_bytes, devices, device_count, names, name_bytes;
  int address, device_number, traffic_class, service_level;
  int list_bytes;  ///< of the device list before it; 0: there is none
};

/// Of one release; `release` is the one that was looked at.
struct Layout {
  Release release;
  int check_in_bytes;      ///< extInfo
  int check_in_listener;   ///< where the root's answer is awaited
  int check_in_ring;       ///< ring listener
  int ring_address_bytes;  ///< of the root's answer too
  int addresses_bytes;     ///< first all-gather; 28: several follow one another
  int ras_bytes;           ///< of that
  PeerInfoLayout peer;
  GraphInfoLayout graph;
  IbLayout ib;
  bool split_header;  ///< rank and tag of a message come in frames of their own
  bool two_way_ring;  ///< all-gathers go round both ways
  int sync_bytes;     ///< after set-up; kAbsent: no such message
  int sync_bit;       ///< of its tag
};

std::span<const Layout> layouts();
/// Of the release's minor number; null: not known.
const Layout* layout_of(Release release);

inline constexpr size_t kAddressBytes = 28;    ///< ncclSocketAddress
inline constexpr size_t kHandshakeBytes = 12;  ///< magic and type
inline constexpr size_t kSetupBytes = 256;     ///< ncclConnect
inline constexpr uint64_t kIbMagic = 0x564ab9f2fc4b9d6c;

}  // namespace understudy::nccl_decode
