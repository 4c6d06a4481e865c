// NCCL's ncclUniqueId: where a communicator's root listens, and the number that all its sockets
// show first. It reaches the emulated ranks as 128 bytes (a file, PyTorch's store) or is made from
// NCCL_COMM_ID.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "collective_model/nccl/operation.h"
#include "dataplane/base/result.h"
#include "dataplane/base/socket_address.h"

namespace understudy {

inline constexpr size_t kUniqueIdBytes = 128;
using UniqueIdBytes = std::array<uint8_t, kUniqueIdBytes>;

/// The parts that have a meaning (docs/nccl 1.1): NCCL's ncclBootstrapHandle.
struct NcclUniqueId {
  uint64_t magic = 0;
  SocketAddress root;
  /// Bytes 40..127: zeros, but NCCL up to 2.22 leaves there what the caller's memory held. All 128
  /// bytes enter the hash that names the communicator.
  std::array<uint8_t, kUniqueIdBytes - 40> rest{};
  auto operator<=>(const NcclUniqueId&) const = default;
};

UniqueIdBytes unique_id_bytes(const NcclUniqueId& id);

/// Errors: another size than 128, zeros, no IP address or port in it, a link-local IPv6 address, an
/// id of ncclCommGrow.
Result<NcclUniqueId> parse_unique_id(std::span<const uint8_t> bytes);

/// The id that NCCL makes of NCCL_COMM_ID in every process (bootstrapGetUniqueId). Up to 2.21 each
/// process draws its number at random, so it cannot be known: an error.
Result<NcclUniqueId> unique_id_of_comm_id(std::string_view comm_id, NcclVersion version);

/// Of an emulated root that listens at `root`. The same seed and number of communicator give the
/// same id.
NcclUniqueId make_unique_id(uint64_t seed, uint64_t communicator, const SocketAddress& root);

}  // namespace understudy
