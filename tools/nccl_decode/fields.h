// NCCL's structures in words: a list of named values each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/nccl_decode/layout.h"
#include "tools/nccl_decode/tcp_stream.h"

namespace understudy::nccl_decode {

enum class FieldKind : uint8_t {
  kValue,
  kAddress,  ///< an address and a port, or a GID
  kRandom,   ///< differs from run to run: hashes, queue pair numbers, keys, pointers
  kUnknown,  ///< bytes that are no field's and not 0
};

struct Field {
  std::string name, value;
  FieldKind kind = FieldKind::kValue;
  bool operator==(const Field&) const = default;
};

using Fields = std::vector<Field>;
using Bytes = std::span<const uint8_t>;

/// Little-endian numbers; 0 where the bytes end before.
uint32_t u32_at(Bytes bytes, size_t at);
uint64_t u64_at(Bytes bytes, size_t at);
inline int32_t i32_at(Bytes bytes, size_t at) { return static_cast<int32_t>(u32_at(bytes, at)); }
/// ncclSocketAddress; nothing if it is none.
std::optional<Endpoint> address_at(Bytes bytes, size_t at);
std::string hex_text(Bytes bytes, size_t most = 32);
inline std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

// Each takes the bytes of the structure, of the size that its layout says.
Fields describe_check_in(Bytes bytes, const Layout& layout);
Fields describe_ring_address(Bytes bytes);
/// First all-gather of releases 2.23 and later.
Fields describe_addresses(Bytes bytes, const Layout& layout);
Fields describe_peer_info(Bytes bytes, const PeerInfoLayout& layout);
Fields describe_graph_info(Bytes bytes, const GraphInfoLayout& layout);
/// One entry of a set-up message.
Fields describe_setup(Bytes bytes);
Fields describe_device_list(Bytes bytes);
Fields describe_ib(Bytes bytes, const IbLayout& layout);

}  // namespace understudy::nccl_decode
