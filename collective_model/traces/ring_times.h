// When the ranks of a ring end a collective that they enter at different times: the ring algorithm of
// ASTRA-sim (astra-sim/system/collective/Ring.cc, PacketBundle.cc, Sys.cc of tag tutorial-micro2024).
//
// An operation is cut into chunks, which a rank carries out one after another. Of a chunk, each step
// sends a message to the next rank and waits for that of the rank before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace understudy {

/// Times in ns.
struct RingSteps {
  uint64_t chunks = 0;
  uint64_t steps = 0;          ///< of a chunk
  uint64_t reducing = 0;       ///< the first ones of them reduce what arrives
  uint64_t message_bytes = 0;  ///< of a step
  int64_t reduce = 0;          ///< how long one reduces
  int64_t endpoint = 0;        ///< before the first message of a chunk, and after each step
  /// Of messages, where links carry one at a time: how long one keeps its link busy.
  int64_t serialized = 0;
};

/// `at`: when each rank enters, in order of the ring; becomes when it ends. `way`: how long its
/// messages take to the next rank, by rank or one for all. `free`: from when each rank's link can be
/// used, which is updated; empty where links carry any number at once. Linear in ranks and chunks, and
/// in steps until the ranks keep pace (about as many as there are ranks; all of them where ways
/// differ).
void ring_times(const RingSteps& steps, std::span<const int64_t> way, std::vector<int64_t>& at,
                std::vector<int64_t>& free);

}  // namespace understudy
