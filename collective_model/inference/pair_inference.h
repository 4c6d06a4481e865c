// What a communicator's ranks send to and receive from one another (send/recv, all-to-all,
// all-to-all-v, gather, scatter), inferred from what crosses the border to its real ranks: the
// credits that they grant and the data that they send. Nothing is known but the communicator.
//
// A credit offers min(bytes, chunk): a message that comes alone is known to the byte, of others the
// last one is not, but where the real ranks send as much. Credits of a connection come eight at a
// time: fewer are all that it has. Where all that was granted has come, and that was acknowledged,
// the next credit begins the next operation; so does a message after one that was shorter than its
// chunk, or of another size. An operation that was there before has ended where it ended then.
//
// Assumed: operations are one group of sends and receives each, at most one to and from each peer;
// every real rank with connections takes part in each.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective_model/inference/pair_operation.h"
#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"
#include "collective_model/nccl/p2p_rounds.h"

namespace understudy {

/// A send/recv connection between a real rank and an emulated one.
struct PairConnection {
  uint32_t channel = 0;
  uint32_t real = 0, far = 0;  ///< ranks
  bool to_real = false;        ///< the receiver is the real one
};

class PairInference {
 public:
  /// `real`: ranks of the communicator, ascending, all of a node if it has several. `connections`:
  /// those with emulated ranks.
  PairInference(Communicator communicator, std::vector<uint32_t> real,
                std::vector<PairConnection> connections);

  /// A real rank granted the next credit of `connection`, of `capacity` bytes.
  void on_credit(uint32_t connection, uint32_t capacity);
  /// The next message of a real rank on `connection` has wholly come.
  void on_data(uint32_t connection, uint32_t bytes);
  /// The real rank has wholly acknowledged the next message of the emulated one.
  void on_acknowledged(uint32_t connection);
  /// Bytes of one message of each connection on which real ranks send in an operation that was
  /// there before; nothing if it was not.
  std::optional<uint64_t> round_bytes() const {
    return before_ ? std::optional(round_bytes_) : std::nullopt;
  }
  /// Nothing has come from a real rank for long. What may be over is; else what has come is taken
  /// for all that it sends and receives.
  void settle(uint32_t real);
  /// Real rank `real` waits for what it has granted.
  bool waits(uint32_t real) const;

  /// The same operation may be the first one that next() has not given.
  bool may_be(const Operation& operation) const;
  /// The same as far as the last event of a connection goes, if it was so before that.
  bool explains(const Operation& operation, uint32_t connection) const;
  /// It is expected there, and over once it may be; surely so if it was there `before`.
  void expect(const Operation& operation, bool before);
  /// What that is taken for, from what has come; nothing if it has not begun or nothing explains
  /// it.
  std::optional<Operation> current() const { return operation(false); }

  struct Found {
    std::optional<Operation> operation;  ///< nothing: no sizes explain what came
    /// All sizes are known to the byte, and where it begins and ends.
    bool unique = false;
    bool border_open = false;  ///< it may be several, or a part of one
    /// A size that is not known: what it was taken for, and what it may be.
    struct Unknown {
      uint64_t taken = 0;
      uint64_t least = 0, most = 0;
      bool known_elsewhere = false;  ///< another pair surely has as much
      bool operator==(const Unknown&) const = default;
    };
    std::vector<Unknown> unknown;  ///< each different one
  };
  /// Takes the next operation that is over.
  bool next(Found& found);
  /// No more will come.
  void finish();
  /// What nothing explains, once that has happened; nothing is inferred from then on.
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  /// Of an operation on a connection.
  struct Use {
    uint64_t messages = 0;
    uint32_t size = 0, last = 0;  ///< of the first and the last one; credits: what they offer
    uint64_t bytes = 0;
  };
  struct Part {
    std::vector<Use> uses;  ///< by connection
    bool begun = false;     ///< something of it has come
    bool still = false;     ///< what has come is taken for all of it
    bool over = false;
  };
  struct Rank {
    uint32_t rank = 0;
    std::vector<uint32_t> connections;
    std::deque<Part> parts = {};  ///< that next() has not given
    uint64_t outstanding = 0;     ///< credits whose messages were not acknowledged
    uint64_t left = 0;            ///< connections on which the first part lacks what is expected
  };
  /// All connections from one rank to another.
  struct Pair {
    uint32_t from = 0, to = 0;
    bool to_real = false;
    std::vector<uint32_t> connections;
    size_t rank = 0;  ///< position of the real one
  };
  /// What a connection is used for if a pair has some bytes.
  struct Piece {
    uint32_t channel = 0;
    uint64_t messages = 0;
    uint32_t size = 0, last = 0;
  };

  bool may_go_on(const Use& use, bool credit, uint32_t bytes) const;
  bool belongs(const Rank& rank, size_t part, uint32_t connection, bool credit,
               uint32_t bytes) const;
  bool pending(uint32_t connection) const;
  void take(uint32_t connection, bool credit, uint32_t bytes);
  void end_expected(Rank& rank);
  bool ended(const Pair& pair) const;
  bool is_chunk(uint32_t bytes) const;
  bool whole(const Pair& pair, const Operation& operation) const;
  Use use(const Pair& pair, uint32_t connection) const;
  bool seen(const Pair& pair) const;
  std::vector<Piece> pieces(const Pair& pair, uint64_t bytes) const;
  bool fits(const Pair& pair, uint64_t bytes, bool over) const;
  bool exact(const Pair& pair, bool over) const;
  bool border_shows() const;
  std::vector<Found::Unknown> unknown_sizes(const std::optional<Operation>& taken) const;
  std::optional<uint64_t> size(const Pair& pair, bool over, std::span<const uint64_t> known) const;
  std::optional<Operation> operation(bool over) const;
  void add_unseen(std::vector<RankPairs>& real) const;
  std::optional<Operation> of_sizes(const std::vector<std::optional<uint64_t>>& sizes) const;

  Communicator communicator_;
  std::vector<uint32_t> real_;
  P2pRounds rounds_;
  std::vector<PairConnection> connections_;
  std::vector<size_t> rank_of_, pair_of_;  ///< by connection: positions
  std::vector<uint64_t> at_;  ///< by connection: operation that its next message may be of
  uint64_t reported_ = 0;     ///< operations that next() has given
  std::vector<Rank> ranks_;
  std::vector<Pair> pairs_;
  std::optional<Operation> expected_;
  bool before_ = false;        ///< that was there before
  std::vector<uint64_t> due_;  ///< by connection: messages of that
  uint64_t round_bytes_ = 0;   ///< of it
  bool begins_surely_ = true;  ///< the first operation that next() has not given
  std::optional<std::string> lost_;
};

}  // namespace understudy
