// The state of torchrun's c10d rendezvous, which its agents keep in a store: a pickled object of
// PyTorch's (docs/nccl 6.4). Its form depends on the release, and is seen from what a real agent has
// written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

/// An agent as the rendezvous names it. Their order is that of the nodes' ranks: by host name, then
/// by process.
struct TorchAgent {
  std::string host;
  int64_t pid = 0;
  int64_t local_id = 0;  ///< of several in one process
  auto operator<=>(const TorchAgent&) const = default;
  std::string text() const { return host + ", process " + std::to_string(pid); }
};

/// What differs between releases.
struct RendezvousForm {
  uint8_t protocol = 4;     ///< of Python's pickle
  bool addr = false;        ///< a host is "addr" (torch 2.x), else "fqdn" (1.x)
  bool redundancy = false;  ///< there is a redundancy_list (later 2.x)
  bool with_zone = false;   ///< times say that they are UTC (later 2.x)
  bool operator==(const RendezvousForm&) const = default;
};

/// Times are microseconds since 1970, UTC, by the clocks of the agents.
struct RendezvousState {
  int64_t round = 0;
  bool complete = false, closed = false;
  std::optional<int64_t> deadline;
  std::map<TorchAgent, int64_t> participants;  ///< and their ranks, once complete
  std::set<TorchAgent> wait_list, redundancy_list;
  std::map<TorchAgent, int64_t> last_heartbeats;
  bool operator==(const RendezvousState&) const = default;

  /// As each agent does that sees the state: who has not been heard of for 15 s is gone.
  void drop_silent(int64_t now);
  /// Nobody is left in a complete round: the next one begins.
  void remove(const TorchAgent& agent);
  /// All are there: they get their ranks.
  void finish_round();

 private:
  void next_round_if_empty();
};

/// `form`: what the state shows of it is noted there, the rest stays.
Result<RendezvousState> read_rendezvous_state(std::span<const uint8_t> pickle,
                                              RendezvousForm& form);
std::vector<uint8_t> write_rendezvous_state(const RendezvousState& state,
                                            const RendezvousForm& form);

}  // namespace understudy
