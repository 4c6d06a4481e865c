// What a communicator does, inferred from what crosses the border to its real ranks: the credits
// that they grant and the data that they send. Nothing is known but the communicator. Everything
// that is consistent with what was seen stays a candidate; where one is left, the operation is
// known.
//
// How operations are told apart, channel by channel: what cannot belong to the operation (a credit
// of another capacity, a message that no size explains) begins the next one. Where a loop ends, the
// operation may have ended, too. It has not while emulated ranks have credits that they did not
// use. It has when every connection is at the end of a loop, if credits run ahead of what is sent
// inside an operation, as wherever a receive is followed by a send that crosses the border.
// Otherwise it is taken to go on, and if what it then turns out to be may indeed have ended there,
// its border is in doubt.
//
// An operation uses channels from the first one on, and has ended on all of them before the next
// one begins: so parts are put together, if NCCL cuts a whole like this.
//
// Assumed: operations come alone, not in groups that share channels (where nothing fits together
// the operation is marked); a rank's first credits come before its data, and what it sends on
// different connections comes nearly in its order.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective_model/schedule/lane_kind.h"

namespace understudy {

/// An operation as far as it is known.
struct InferredOperation {
  struct Candidate {
    Collective collective = Collective::kAllReduce;
    Algorithm algorithm = Algorithm::kRing;
    Protocol protocol = Protocol::kSimple;
    uint32_t elements = 0;             ///< sum of the sizes that an element may have: 1, 2, 4, 8
    std::vector<uint32_t> roots = {};  ///< that it may have; empty: it has none
    /// As Operation::bytes(): of the whole buffer, or of what one rank contributes.
    SizeSet bytes;
  };
  std::vector<Candidate> candidates;
  uint32_t channels = 0;
  uint64_t first_message = 0;  ///< observations before its first one
  /// Operations before or after it may be parts of it, or it may be several.
  bool border_open = false;

  /// One collective, algorithm, protocol and root, of one size.
  bool unique() const {
    return !border_open && candidates.size() == 1 && candidates[0].bytes.single() &&
           candidates[0].roots.size() <= 1;
  }
};

class Inference {
 public:
  /// `real`: ranks of the communicator, ascending, not all of one node's if it has several.
  Inference(Communicator communicator, std::vector<uint32_t> real);

  const std::vector<BorderConnection>& connections() const { return connections_; }

  /// A real rank granted the next credit of `connection`, of `capacity` bytes.
  void on_credit(uint32_t connection, uint32_t capacity);
  /// The next message of a real rank on `connection` has wholly come, `wire` bytes.
  void on_data(uint32_t connection, uint32_t wire);
  /// The emulated rank has wholly sent its next message on `connection`.
  void on_sent(uint32_t connection);

  /// What an operation under way is taken for.
  struct Taken {
    Operation operation;
    bool bounded = false;   ///< its size is known, or nearly; else it is longer than what was seen
    bool expected = false;  ///< it follows the one before as it did before, or repeats it
  };
  /// The first operation that next() has not given, given those before it as they were. Nothing if
  /// it has not begun or nothing explains it.
  std::optional<Taken> current(std::span<const Operation> before) const;
  /// The same operation may be this one.
  bool may_be(const Operation& operation) const;
  /// An operation may be what next() gave.
  static bool fits(const InferredOperation& said, const Operation& operation);

  /// Takes the next operation that is over: its end is known, or another one has begun.
  bool next(InferredOperation& operation);
  /// No more will come: the ones that may be over are.
  void finish();
  /// What nothing explains, once that has happened; nothing is inferred from then on.
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  /// One operation on one channel.
  struct LaneOperation {
    std::vector<SizeSet> sizes;  ///< by kind; empty: it is not that
    uint64_t events = 0;
    uint64_t first_event = 0, last_event = 0;  ///< observations before them
    std::vector<bool> doubts;  ///< by kind: it may have ended where it was taken to go on
    bool open = false;         ///< once over: a border is in doubt
    uint64_t sent = 0;         ///< messages of real ranks
    /// Its only one of those may be all that an operation before it sent: its first credit may have
    /// overtaken that.
    bool overtook = false;
    /// The last ones of those may be of the next operation, wherever it began.
    bool lent = false;
    bool ended_surely = false;
    bool over = false;
  };
  struct Channel {
    std::vector<LaneKind> kinds;
    std::vector<uint32_t> connections = {};
    std::deque<LaneOperation> operations = {};
    uint64_t first = 0;     ///< number of operations before the first one here
    uint64_t reported = 0;  ///< operations that were taken
  };
  struct State {
    uint64_t operation = 0;  ///< of the channel, that the next event may belong to
    uint64_t count = 0;      ///< messages or credits of it
    uint64_t total = 0;      ///< of all operations
    uint64_t sent = 0;       ///< by the emulated rank, of all operations
    uint32_t before = 0;     ///< bytes of the last message
  };
  struct Event {
    uint32_t connection = 0;
    bool credit = false;
    uint32_t bytes = 0;
  };
  void take(const Event& event);
  SizeSet continued(const LaneKind& kind, const SizeSet& sizes, const Event& event) const;
  bool complete(const LaneKind& kind, const SizeSet& sizes, uint64_t operation) const;
  bool over(const Channel& channel, uint64_t operation) const;
  bool credited(const LaneKind& kind, uint64_t operation) const;
  bool sent_nearly(const LaneKind& kind, uint64_t operation, uint64_t count) const;
  bool left(const Channel& channel, uint64_t operation) const;
  void move_on(State& state, uint64_t operation);
  void begin(uint32_t channel);
  bool in_doubt(const Channel& channel, uint64_t operation) const;
  uint32_t real_end(uint32_t connection) const;
  bool waits(const Channel& channel, uint64_t operation, std::optional<uint32_t> rank) const;
  bool is_all_of_another(const Channel& channel, const Event& event) const;
  void close(uint32_t channel, uint64_t operation);
  void lose(const Event& event);
  const LaneOperation* unreported(uint32_t channel, uint64_t ahead = 0) const;
  std::vector<InferredOperation::Candidate> candidates(uint32_t channels) const;
  std::vector<uint64_t> from_known_parts(const InferredOperation::Candidate& candidate,
                                         uint32_t channels) const;
  SizeSet totals(std::span<const SizeSet> lanes, const Operation& operation) const;

  Communicator communicator_;
  std::vector<uint32_t> real_;
  std::vector<BorderConnection> connections_;
  std::vector<Channel> channels_;
  std::vector<State> states_;
  uint64_t observations_ = 0;
  /// A channel's parts may be of operations before those that they were taken for.
  bool shifted_ = false;
  bool robbed_ = false;  ///< some of the next operation's may have been taken for the last one's
  bool finished_ = false;
  std::optional<std::string> lost_;
};

}  // namespace understudy
