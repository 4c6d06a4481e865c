// All emulated ranks between two real nodes of a ring, or of the pipeline of a broadcast or reduce,
// up to its ends, evaluated exactly by the recurrence of general_plan.h, but for many nodes at a
// time.
//
// A chunk goes from rank to rank, one step later each: what rank r sends as message m is on the
// diagonal m - shift * r, and goes on on it. Along a diagonal, over nodes whose hops are alike, all
// is as long from node to node, so that the times are straight lines, of which the recurrence takes
// maxima: a few pieces (node_times.h) stand for all nodes, and each is worked out at once. Where
// the recurrence is another one it is evaluated rank by rank: in the first and the last node, and
// where a loop begins (in a window of messages from there). Where the kind of the hop changes a new
// line may begin; but where the slowest hops hold up all, times are those of the diagonal a window
// before, later by what a window takes there, and are shared with it (row_times.h). So an input
// costs as many operations as there are pieces that change, however many nodes lie between them;
// they come and go with real ranks and entries that hold the chain up from several sides at once.
//
// A diagonal is worked out when a real rank can feel it, as far as what is known allows; so is what
// it waits for. Once per operation, when all ranks have entered, all that have begun are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collective_model/plan/row_times.h"
#include "collective_model/plan/wire_cost.h"
#include "collective_model/schedule/schedule.h"
#include "dataplane/base/units.h"

namespace understudy {

struct ChainEvaluatorConfig {
  std::vector<std::shared_ptr<const RankSchedule>> ranks;  ///< along the ring
  uint32_t sends = 0;     ///< the connection by which the first of them, in a ring each, sends
  uint32_t gpus = 1;      ///< ranks of a node
  uint32_t skipped = 0;   ///< ranks that the first node has less
  bool begins = false;    ///< the first rank receives nothing
  bool ends = false;      ///< the last rank, of a node of any size, sends nothing
  std::vector<Hop> hops;  ///< from each node to the next
  uint32_t shift = 1;     ///< message m of a rank carries on message m - shift
  uint64_t per_loop = 1;  ///< messages; all of a pipeline
  WireCost wire;
  Duration step;
  std::optional<NodeWay> inside = {};  ///< without: no time
};

class ChainEvaluator {
 public:
  explicit ChainEvaluator(ChainEvaluatorConfig config);
  /// Whether ranks at one place of their nodes have as many ways inside it.
  bool regular() const;

  void begin();
  /// Ranks are numbered along the ring, from 0, or from those on that the first node has less.
  void enter(uint32_t rank, Time entry);
  /// The next message from the real rank has come, or the next of those to it is acknowledged.
  void on_data(Time t) { arrivals_[static_cast<size_t>(arrived_++)] = t + c_.step; }
  void on_acknowledged(Time t) { acks_[static_cast<size_t>(acked_++)] = t; }
  uint64_t arrived() const { return static_cast<uint64_t>(arrived_); }
  uint64_t acknowledged() const { return static_cast<uint64_t>(acked_); }

  /// Works out what is known now.
  void advance();
  /// When the last rank may send message m, and the first one grants the credit for message m;
  /// of the last messages that are known.
  uint64_t data_known() const { return static_cast<uint64_t>(data_known_); }
  Time data(uint64_t m) const { return data_[m % kKept]; }
  uint64_t credits_known() const { return static_cast<uint64_t>(credits_known_); }
  Time credit(uint64_t m) const { return credits_[m % kKept]; }
  /// Of the ranks of the first node as soon as it is known; of others when their last diagonal is
  /// worked out.
  Time completion(uint32_t rank) const { return completions_[rank]; }
  uint32_t completed() const { return completed_; }  ///< ranks
  bool finished() const { return completed_ == ranks_ - c_.skipped; }

 private:
  static constexpr uint32_t kKept = 64;  ///< outputs
  static constexpr int64_t kSweepsPerLife = 4;
  static constexpr int64_t kRoom = 4096;        ///< diagonals, at least, if there can be as many
  static constexpr int64_t kPieceRoom = 16384;  ///< besides some of each
  static constexpr uint32_t kShared = 8;        ///< nodes that are shared, at least
  static constexpr uint32_t kMostParts = 64;    ///< of a diagonal, beyond which it is not compared
  static constexpr uint32_t kWorth = 64;        ///< nodes on a line
  static constexpr uint32_t kCompared = 12;     ///< stretches, from which on a row is compared
  static constexpr int64_t kPartRoom = 4096;
  static constexpr uint32_t kSizes = 16;  ///< of messages, for which there is room from the start

  /// What something waits for.
  struct Need {
    enum class Kind : uint8_t { kNothing, kDiagonal, kEntry, kArrival, kAcknowledged };
    Kind kind = Kind::kNothing;
    int64_t index = 0;
    uint32_t position = 0;
  };
  struct alignas(64) Diagonal {
    int64_t border = 0;  ///< the first message of the loop that begins on it
    // Positions: in each node its ranks, when they are done with their message, then its hop, when
    // that starts.
    uint32_t at = 0, end = 0;
    uint32_t sizes[2] = {0, 0};  ///< of messages before and from the border, in sizes_
    // The position of a diagonal behind it, as many as this, that it waits for; or 0.
    uint32_t later = 0, later_position = 0;
    // Of the first node, as far as it has come, where nodes are of one rank.
    Time first_done, first_start;
    RowTimes::Row row;  ///< by node, relative to base_
  };
  using Cursor = RowTimes::Cursor;
  /// A position that is to be worked out, and those that it waits for.
  using Demand = std::vector<std::pair<int64_t, uint32_t>>;

  bool entered(uint32_t rank) const { return !entries_[rank].is_never(); }
  Diagonal& diagonal(int64_t index) {
    return diagonals_[static_cast<size_t>(index - first_) & mask_];
  }
  /// What happens on a diagonal in a node, in order: that the rank at a place is done with its
  /// message, and that this starts to the next rank. The latter inside the node if that takes time.
  uint32_t done_slot(uint32_t place) const { return c_.inside ? 2 * place : place; }
  uint32_t start_slot(uint32_t place) const { return done_slot(place) + 1; }
  uint32_t position(uint32_t node, uint32_t slot) const { return node * slots_ + slot; }
  /// A chain's nodes and their places. One rank a node (kOne) is what there is most often, and is
  /// compiled apart: it has one place, and two slots.
  template <bool kOne>
  uint32_t gpus() const {
    return kOne ? 1 : gpus_;
  }
  template <bool kOne>
  uint32_t slots() const {
    return kOne ? 2 : slots_;
  }
  template <bool kOne>
  uint32_t done_slot_of(uint32_t place) const {
    return kOne ? 0 : done_slot(place);
  }
  /// Relative to base_.
  Time time_at(const Diagonal& d, uint32_t slot, uint32_t node) const {
    return rows_.at(d.row, slot, node);
  }
  void create(int64_t index);
  uint32_t size_of(uint32_t rank, int64_t m);
  uint32_t look_up(uint32_t rank, int64_t m);
  uint32_t size(const Diagonal& d, int64_t m) const { return d.sizes[m < d.border ? 0 : 1]; }
  Duration wire(const Diagonal& d, int64_t m, uint32_t node) const {
    return times_[size(d, m) * kinds_ + kind_[node]];
  }
  /// Of a rank to the next one of its node.
  Duration inner_time(const Diagonal& d, int64_t m, uint32_t rank) const {
    return inner_times_[size(d, m) * most_ways_ + ways_[rank]];
  }
  Duration latency(uint32_t node) const { return c_.hops[node].latency; }
  Duration credit_latency(uint32_t node) const { return c_.hops[node].credit_latency(); }
  /// On the hop: of a message and its acknowledgement, and of one and the credit that it sets free.
  Duration acknowledged_after(uint32_t node) const { return c_.hops[node].round_trip(); }
  Duration credited_after(uint32_t node) const { return latency(node) + credit_latency(node); }
  int64_t place_in_loop(const Diagonal& d, int64_t m) const {
    if (m >= d.border) return m - d.border;
    if (m >= d.border - per_loop_) return m - (d.border - per_loop_);
    return m % per_loop_;
  }

  bool wait(Need::Kind kind, int64_t index, uint32_t position = 0) {
    need_ = {kind, index, position};
    return false;
  }
  /// Whether what something waits for has not come yet.
  bool open(const Need& need) const {
    if (need.kind == Need::Kind::kArrival) return arrived_ <= need.index;
    if (need.kind == Need::Kind::kAcknowledged) return acked_ <= need.index;
    return need.kind == Need::Kind::kEntry && !entered(static_cast<uint32_t>(need.index));
  }
  bool ensure(Demand& demand);
  /// Works out a position; false, with need_, if that waits for an input.
  bool demand(Demand& stack, int64_t index, uint32_t position) {
    if (stack.empty()) {
      if (index < created_ && diagonal(index).at > position) return true;
      stack.push_back({index, position});
    }
    return ensure(stack);
  }
  bool sweep();
  void extend(int64_t index);
  template <bool kOne>
  void go_on(int64_t index);
  bool first_node(int64_t index, Diagonal& d);
  bool last_node(int64_t index, Diagonal& d);
  template <bool kOne>
  bool step(int64_t index, Diagonal& d, uint32_t node, uint32_t slot);
  template <bool kOne>
  bool fill(int64_t index, const Diagonal& d, uint32_t node, uint32_t place, Time& t);
  template <bool kOne>
  bool start(int64_t index, const Diagonal& d, uint32_t node, uint32_t place, Time& t);
  template <bool kOne>
  bool done_at(uint32_t node, uint32_t place, int64_t m, Time& t);
  template <bool kOne>
  bool start_at(uint32_t node, uint32_t place, int64_t m, Time& t, Duration& time);
  template <bool kOne>
  bool arrival(uint32_t node, uint32_t place, int64_t m, Time& t);
  template <bool kOne>
  bool received(const Diagonal& d, uint32_t node, uint32_t place, int64_t m, Time& t);
  template <bool kOne>
  bool acknowledged(const Diagonal& d, uint32_t node, uint32_t place, int64_t m, Time& t);
  template <bool kOne>
  uint32_t alike_until(int64_t index, const Diagonal& d, uint32_t node);
  template <bool kOne>
  void run(int64_t index, Diagonal& d, uint32_t node, uint32_t end);
  template <bool kOne>
  void read_all(int64_t index, const Diagonal& d, uint32_t node);
  // chain_evaluator_even.cc
  /// Whether the diagonals that run_even() looks at are such.
  bool even(int64_t index, const Diagonal& d, uint32_t node) {
    return kinds_ == 1 && index + shift_ * int64_t{node} >= window_ && !d.row.related &&
           !diagonal(index - 1).row.related && !diagonal(index - window_).row.related;
  }
  uint32_t run_even(int64_t index, Diagonal& d, uint32_t node, uint32_t end);
  // chain_evaluator_repeat.cc
  uint32_t may_repeat_from(int64_t index, const Diagonal& d, uint32_t node);
  uint32_t repeats_until(int64_t index, uint32_t node, uint32_t end, Time last, Duration& rise);
  uint32_t rises_until(const Diagonal& d, uint32_t node, Duration rise) const;
  bool worth_sharing(const Diagonal& d, uint32_t part, uint32_t own, uint32_t node,
                     uint32_t end) const;
  void add_own(int64_t index, Diagonal& d, uint32_t node, uint32_t end, bool compare);
  bool passes_on(int64_t m);
  bool may_end(int64_t index);
  void grant();
  void finish(int64_t index);
  void complete(uint32_t rank, Time t);
  void complete_first_node();

  ChainEvaluatorConfig c_;
  uint32_t ranks_, nodes_, gpus_;
  uint32_t slots_ = 2;  ///< of a node
  uint32_t kinds_ = 1;
  int64_t messages_, per_loop_, shift_, window_;
  std::vector<uint32_t> kind_, run_end_;  ///< by hop: of its kind, and where its like end
  std::vector<Hop> kind_hop_;
  std::vector<Duration> base_;             ///< of each node: latencies and steps of the way there
  Duration longest_;                       ///< acknowledged_after() or credited_after()
  bool one_rate_ = true;                   ///< of all hops
  std::vector<uint32_t> sizes_;            ///< of messages: those that occur
  std::array<uint32_t, 2> alternating_{};  ///< of the first rank, up to a message
  int64_t alternates_ = 0;
  std::vector<Duration> times_;        ///< on the wire, by size and kind
  std::vector<uint32_t> ways_;         ///< that a rank has out inside its node
  uint32_t most_ways_ = 1;             ///< and one
  std::vector<Duration> inner_times_;  ///< inside a node, by size and ways
  std::vector<Time> entries_, completions_, arrivals_, acks_;
  uint32_t entered_ = 0, completed_ = 0;
  bool all_entered_ = false;
  int64_t arrived_ = 0, acked_ = 0;
  int64_t data_known_ = 0, credits_known_ = 0;
  std::array<Time, kKept> data_{}, credits_{}, first_done_{};
  int64_t first_known_ = 0;  ///< messages with which the first rank is done

  std::vector<Diagonal> diagonals_;  ///< a ring
  int64_t border_ = 0;               ///< of the last diagonal that began
  size_t mask_ = 0;                  ///< one less than their number
  RowTimes rows_;
  NodeTimes never_;                   ///< kLongBefore
  int64_t kept_ = 0;                  ///< diagonals that have ended
  int64_t first_ = 0;                 ///< that there is
  int64_t created_ = 0, oldest_ = 0;  ///< the next to begin, the first that has not ended
  int64_t swept_ = 0;                 ///< oldest_ at the last sweep()
  Need need_;
  Need first_need_, last_need_;
  Demand first_demand_, last_demand_, end_demand_;
  // For run().
  struct Line {
    Time first;
    Duration slope;
  };
  std::vector<Cursor> cursors_, compared_;
  std::vector<Duration> to_hop_;  ///< by place: from done to the start on the hop
  std::vector<Line> steep_, lines_;
};

}  // namespace understudy
