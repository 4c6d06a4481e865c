// What a real rank says of itself, and how strictly it reads what others say (docs/nccl 1.3
// to 1.7).
#pragma once

#include <string>
#include <vector>

#include "tests/rigs/nccl_rank/process.h"
#include "tests/rigs/nccl_rank/world.h"

namespace understudy::nccl_rank {

inline std::string rank_text(int rank) { return "rank " + std::to_string(rank); }
void put32(Bytes& bytes, int at, uint32_t value);
void put64(Bytes& bytes, int at, uint64_t value);
void put_address(Bytes& bytes, int at, const SocketAddress& address);
/// An address that somebody listens at; nothing else in its 28 bytes.
SocketAddress read_address(const Bytes& bytes, int at, const std::string& what);
/// Throws unless all bytes from `from` on are 0.
void require_zero(const Bytes& bytes, size_t from, const std::string& what);

Bytes build_check_in(const World& world, int rank, int ranks, const SocketAddress& answer_to,
                     const SocketAddress& ring);
/// First all-gather of 2.23 and later. `shared`: of a child that shares its parent's proxies.
Bytes build_addresses(const World& world, const SocketAddress& messages, const SocketAddress& proxy,
                      uint64_t uds, bool shared);

/// Of the rank `own` of a communicator; ranks of `of` are those of the world.
struct Members {
  std::vector<int> of;  ///< world's rank of each of the communicator's
  int own = 0;
  int size() const { return static_cast<int>(of.size()); }
};
Bytes build_peer_info(const World& world, const Members& members);
Bytes build_graph_info(const World& world, const Members& members);
/// Throws where NCCL gives up, and where an emulated rank says what none is to say.
void judge_peer_infos(const World& world, const Members& members, const std::vector<Bytes>& infos);
void judge_graph_infos(const World& world, const Members& members, const std::vector<Bytes>& infos);

}  // namespace understudy::nccl_rank
