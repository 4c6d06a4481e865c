// What NCCL's out-of-band bootstrap looks like in each release from 2.18 to 2.31: one row of data a
// release (docs/nccl 1.3 to 1.8, appendix D). All offsets and sizes in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collective_model/nccl/operation.h"

namespace understudy {

/// How a rank goes through a step of the ring's all-gather (docs/nccl 1.4).
enum class RingOrder : uint8_t {
  kInTurn,      ///< sends a slice, then receives one
  kConcurrent,  ///< sizes both ways, then payloads both ways
  kBothWays,    ///< two rings on the same sockets, half the steps
};

/// What ranks exchange after their transports are connected (docs/nccl 2.1).
enum class SyncForm : uint8_t {
  kNone,
  kFlagSameTag,  ///< 4 bytes with the tag of the set-up
  kFlag,         ///< 4 bytes, bit 7 in the tag
  kEmpty,        ///< no bytes, bit 7 in the tag
};

/// Which connections for one-sided operations emulated ranks know (docs/nccl 3.16).
enum class OneSidedForm : uint8_t {
  kNone,
  kGinAtOnce,  ///< GIN's: a ring, its mesh and its context in one
  kRings,      ///< of the RMA proxy and of GIN: each mesh is made with a ring of its own
  kMeshes,     ///< of the same: meshes are made over a ring
};

struct BootstrapLayout {
  std::string_view releases;  ///< "2.29.2 to 2.29.3"
  uint32_t minor;

  // Check-in: rank at 0, number of ranks at 4, roots (if there is room) at 8 and 12.
  uint32_t check_in, check_in_answer_at, check_in_ring_at;
  uint32_t root_answer;
  bool root_answers_early;  ///< once a rank and its next are there; else once all are

  /// Sizes of the ring's first all-gathers; 0: none.
  std::array<uint32_t, 3> first;
  RingOrder ring;
  /// Messages begin with {rank, tag} in one frame, and go to another address than the ring's; else
  /// in two frames, to the ring's.
  bool one_header;

  // ncclPeerInfo: rank at 0, hostHash at 16, pidHash at 24 in all of them.
  uint32_t peer_info, fabric_info, version_at;  ///< 0: there is none

  // allGatherInfo: entries of {pattern, nChannels, ...} of each algorithm, then ncclTopoRanks.
  uint32_t all_gather_info;
  uint32_t graph_entry;
  uint32_t topo_ranks, channels;  ///< where its arrays of `channels` numbers begin
  uint32_t local_ranks_at;        ///< 0: there is none

  SyncForm sync;
  bool ring_registration;  ///< an all-gather of 2 bytes after the ring is connected
  bool split_in_one;       ///< color and key in one all-gather
  /// All children of a communicator have the same magic: the first 8 characters of its hash as
  /// text; later it depends on the color.
  bool one_magic;
  OneSidedForm one_sided = OneSidedForm::kNone;
};

/// Rows of all releases, oldest first.
std::span<const BootstrapLayout> bootstrap_layouts();
/// The rows of a release: more than one where its patch releases differ.
std::vector<const BootstrapLayout*> layouts_of(NcclVersion version);

/// Which releases have `size` bytes there and what to set then, as the end of a sentence: "; NCCL
/// 2.29 has that: set nccl = "2.29" in the [job]".
std::string releases_with(uint32_t size, uint32_t BootstrapLayout::*member);
std::string releases_with_first(uint32_t size);

}  // namespace understudy
