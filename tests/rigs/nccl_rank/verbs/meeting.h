// How ranks of a communicator meet by a unique id in a file: the first one's process writes it, the
// others read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "tests/rigs/nccl_rank/real_rank.h"

namespace understudy::nccl_rank {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

struct MeetingPlace {
  std::string path;
  uint64_t seed = 0;    ///< of ids that are made ...
  uint64_t number = 0;  ///< ... and which of those of this process
  unsigned patience_s = 60;
};

inline NcclUniqueId id_in(const MeetingPlace& place) {
  const auto begin = steady_clock::now();
  for (UniqueIdFile file(place.path);;) {
    const auto& found =
        file.poll(Time::zero() + Duration::us(static_cast<int64_t>(seconds_since(begin) * 1e6)));
    if (found) {
      require(found->has_value(), *found ? "" : found->error().text);
      return **found;
    }
    require(seconds_since(begin) < place.patience_s, "no unique id in " + place.path);
    std::this_thread::sleep_for(milliseconds(5));
  }
}

/// Where the root is; the world's magic is the id's then. The communicator's first rank is the root
/// and makes the id.
inline SocketAddress meet(RealRank& rank, World& world, const MeetingPlace& place) {
  if (rank.rank() != 0) {
    const NcclUniqueId id = id_in(place);
    world.magic = id.magic;
    return id.root;
  }
  ListeningSocket* listener = rank.open_root(0);
  // As NCCL's, it is another one each time, at the same port as a process before, too.
  const auto moment = static_cast<uint64_t>(steady_clock::now().time_since_epoch().count());
  const NcclUniqueId id = make_unique_id(place.seed + moment, 1 + place.number, listener->address);
  const auto written = write_unique_id_file(place.path, id);
  require(written.has_value(), written ? "" : written.error().text);
  // It serves those whose magic is the id's, from the first one on.
  world.magic = id.magic;
  rank.serve(listener);
  return listener->address;
}

}  // namespace understudy::nccl_rank
