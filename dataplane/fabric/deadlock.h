// Deadlocks of a network: queues paused for ever, each because of the next one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/fabric/graph.h"

namespace understudy {

class Network;

/// Looks for a deadlock. A class of a link is stuck if its sender is paused, the switch behind it
/// holds packets that came by it, and all of these wait for links that are stuck themselves in that
/// class: that switch says "go on" only once some have left. What is stuck stays so whatever else
/// happens, so that finding it once is enough.
class DeadlockSearch {
 public:
  /// Takes all memory that a search of this network needs.
  explicit DeadlockSearch(const Network& network);

  /// A cycle of links, each paused by the switch behind it, which waits for the next one; empty if
  /// there is none. Without allocation; valid until the next call. Time: that of some looks at each
  /// packet in a queue.
  std::span<const LinkId> find(const Network& network);
  /// What the last find() gave.
  std::span<const LinkId> cycle() const { return cycle_; }

 private:
  bool begin(const Network& network);
  bool release_those_that_move(const Network& network);

  // By link and class:
  std::vector<uint8_t> stuck_;
  std::vector<uint8_t> moves_;
  std::vector<uint32_t> next_;  ///< one that it waits for
  std::vector<LinkId> cycle_;
};

}  // namespace understudy
