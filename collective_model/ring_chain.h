// All emulated ranks between two real nodes of a ring, folded in closed form: an input costs a
// constant number of operations, however many ranks there are.
//
// For a ring all-reduce, all-gather or reduce-scatter of one loop whose chunks are equal, over
// equal hops between the nodes. Let N nodes of g ranks follow each other, S slices make a step, w
// messages be in flight, lat and wire(slice) be a hop's latency and a message's time on it. The
// recurrence of environment.h, for x(v, m), the start of message m over the hop from node v, is
//   x(v, m) >= x(v, m-1) + wire
//   x(v, m) >= x(v, m-w) + W',         W' = wire + 2 lat + step: the credit, or acknowledgement
//   x(v, m) >= x(v-1, m-gS) + C,       C = wire + lat + step: the data
//   x(v, m) >= x(v+1, m-B) + wire + 3 lat,  B = w + g(w-S): the credits that those behind lack
// and entries of ranks, arrivals from and acknowledgements of the real ones. Nothing in it depends
// on v, so that on a longest path all moves along m can be made at one node and the others after
// them; a move back and one ahead are never more than two moves of W'. What remains is one
// recursion in m for the last hop (the data sent) and one for the first (the credits granted), to
// which every rank adds its entry once. Slices of two sizes: moves between nodes are best made by
// the larger one, if the path comes to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collective_model/wire_cost.h"
#include "dataplane/base/units.h"

namespace understudy {

struct RingChainConfig {
  uint32_t nodes = 1;     ///< N
  uint32_t gpus = 1;      ///< g
  uint32_t messages = 0;  ///< a rank sends, and receives
  uint32_t slices = 1;    ///< S: 1 or 2
  uint32_t window = 8;    ///< w: a multiple of S, at most 8
  Duration latency;
  std::array<Duration, 2> wire{};  ///< by slice; the first is no shorter
  Duration step;
};

class RingChain {
 public:
  explicit RingChain(const RingChainConfig& config);

  uint32_t ranks() const { return c_.nodes * c_.gpus; }
  void begin();
  /// Ranks are numbered from 0 along the ring.
  void enter(uint32_t rank, Time entry);
  /// The next message from the real rank has come, or the next of those to it is acknowledged.
  void on_data(Time t) { arrivals_[arrived_++] = t + c_.step; }
  void on_acknowledged(Time t) { acks_[acked_++] = t; }
  uint64_t arrived() const { return arrived_; }
  uint64_t acknowledged() const { return acked_; }

  /// Works out what is known now.
  void advance();
  /// When the last rank may send message m, and the first one grants the credit for message m;
  /// of the last messages that are known.
  uint64_t data_known() const { return nodes_.back().known.back(); }
  Time data(uint64_t m) const { return done(nodes_.back(), c_.gpus - 1, m); }
  uint64_t credits_known() const;
  Time credit(uint64_t m) const;
  /// Of the first or last node's rank, whenever it is known; of others when all is done.
  Time completion(uint32_t rank) const;
  bool finished() const;

 private:
  static constexpr uint32_t kKept = 16;  ///< messages of a rank in the first or last node

  /// A node whose ranks are worked out one by one.
  struct Node {
    uint32_t first = 0;                         ///< rank
    std::vector<std::array<Time, kKept>> done;  ///< by rank
    std::vector<uint64_t> known;                ///< by rank
    Time last_arrival = Time::never();
  };
  /// Longest paths along m from a stream of sources: any, and those that pass a given slice.
  struct Row {
    std::vector<Time> any, by_slice[2];
    uint64_t known = 0;
  };
  /// The entry of a rank as the first node's credits feel it.
  struct Late {
    uint32_t at = 0;  ///< message
    uint32_t rank = 0;
    bool sends = false;  ///< by its messages, else by its credits
    uint32_t moves = 0;
  };

  Duration wire(uint64_t m) const { return c_.wire[m % c_.slices]; }
  Duration round(uint64_t m) const { return wire(m) + c_.latency * 2 + c_.step; }
  Duration ahead(uint64_t m) const { return wire(m) + c_.latency + c_.step; }
  Duration back(uint64_t m) const { return wire(m) + c_.latency * 3; }
  /// The first message of the hop to a node that waits for the entry of its rank at `place`: for
  /// the first rank's credits at once, for the others' when a window of messages is used.
  uint32_t felt_by_the_node_before(uint32_t place) const {
    return place == 0 ? 0 : c_.slices + (c_.window - c_.slices) * (place + 1);
  }
  /// Whether it also matters there that the rank's own messages are acknowledged late.
  bool sends_late(uint32_t rank) const {
    return c_.gpus > 1 && last_of_node(rank) && rank + 1 < ranks();
  }
  bool entered(uint32_t rank) const { return !entries_[rank].is_never(); }
  bool last_of_node(uint32_t rank) const { return rank % c_.gpus == c_.gpus - 1; }
  static Time done(const Node& node, uint32_t j, uint64_t m) { return node.done[j][m % kKept]; }

  bool step_node(Node& node);
  bool step_first_hop();
  bool step_last_hop();
  void extend(Row& row, Time source) const;
  /// The latest of a row's paths to m after `moves` moves to other nodes.
  Time after(const Row& row, int64_t m, int64_t moves, bool ahead) const;
  Time along(const std::vector<Time>& x, uint64_t m) const;
  Time entry_of(uint32_t rank) const;
  void complete();
  void all_hops(uint64_t m);
  Duration from_entry(int64_t m) const;

  RingChainConfig c_;
  uint32_t back_shift_ = 0;  ///< B
  std::vector<Time> entries_, completions_;
  std::vector<Time> arrivals_, acks_;  ///< arrivals with the step cost
  uint64_t arrived_ = 0, acked_ = 0;
  std::vector<Node> nodes_;  ///< the first and the last, or the only one
  std::vector<Time> first_hop_, last_hop_;
  uint64_t first_known_ = 0, last_known_ = 0;
  Row data_row_;  ///< arrivals, at the first hop
  Row ack_row_;   ///< acknowledgements, at the last hop
  std::vector<Late> late_;
  size_t next_late_ = 0;
  bool completed_ = false;

  // For complete().
  std::vector<Time> hops_;  ///< start of a message by node
  struct Best {
    int64_t place = 0;
    Time value;
  };
  std::vector<Best> window_;          ///< one for each rank and node at most
  std::array<Duration, 9> kernel_{};  ///< longest way from an entry over less than a window
  Duration period_;                   ///< and over one
};

}  // namespace understudy
