// Which keys PyTorch's process groups use in the store, as a server sees them, and what they are
// for (docs/nccl 6.2). With P for the store of the job, "/" or, of workers that torchrun started,
// "//worker/attempt_<n>/":
//
//   init/                                        how many clients have come (no "/" before it)
//   P default_pg/<group>/<n>                     unique id n of a group, torch 1.x
//   P default_pg/<group>//cuda//<n>              the same, torch 2.0 and later
//   P default_pg/store_based_barrier_key:<g>     torch 1.x and 2.0: g = 1, 2, ...; later releases:
//                                                the group's name, and only with
//                                                TORCH_DIST_INIT_BARRIER=1
//
// Groups are 0, 1, ... in the order of their making; some of the newer releases have other names.
// <n> counts the communicators of the group from 0; that of a send or receive between two ranks is
// "<lower>:<higher>".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace understudy {

/// Of a key that carries an NCCL unique id.
struct UniqueIdKey {
  std::string group;   ///< "0": the first one, of all ranks
  std::string member;  ///< "0", "1", ... or "<lower>:<higher>"
  auto operator<=>(const UniqueIdKey&) const = default;
};
std::optional<UniqueIdKey> parse_unique_id_key(std::string_view key);

/// In quotes, for a message: what a client calls a key may be long.
std::string quoted_store_key(std::string_view key);

/// Where the id may be, by the releases and with torchrun's workers (after `attempts` restarts at
/// most) or without.
std::vector<std::string> unique_id_keys(const UniqueIdKey& key, uint32_t attempts);

bool is_barrier_key(std::string_view key);
/// Of a barrier's key: which the last one sets (2.0 and later).
std::string last_worker_key(const std::string& barrier);
/// Of the g-th barrier.
std::vector<std::string> barrier_keys(uint32_t g, uint32_t attempts);

}  // namespace understudy
