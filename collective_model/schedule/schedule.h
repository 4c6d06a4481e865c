// What one rank of a communicator sends and receives in one operation, message by message, and what
// each message waits for. Nothing is listed in advance: a rank has connections, a connection a
// number of messages, and any message can be asked for.
//
// Two moments of a message are spoken of: its arrival (a received one's data are there), and that
// the kernel is done with it (a message to send is filled; a received one has been used, and its
// buffer is free: the credit for message k + window can be granted). The kernel takes the messages
// of one connection in their order; it fills message k when what message k waits for has happened
// and message k - window has been acknowledged.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collective_model/nccl/channel_cut.h"
#include "collective_model/nccl/communicator.h"
#include "collective_model/nccl/operation.h"
#include "collective_model/schedule/value_part.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

enum class Direction : uint8_t { kSend, kReceive };

/// One direction between two ranks on one channel: one of NCCL's network connections, if `network`,
/// else a way inside a node (NVLink, PCIe, shared memory).
struct Connection {
  uint32_t channel = 0;
  uint32_t from = 0;  ///< rank
  uint32_t to = 0;    ///< rank
  /// 0: collectives, 1: send/recv, 2 and 3: to and from a head through the node's switch; they never
  /// share a connection.
  uint8_t index = 0;
  Direction direction = Direction::kSend;  ///< as the rank sees it
  bool network = true;
  uint32_t nic = 0;  ///< of the rank's node
  /// Sent over another GPU of the sender's node, the one next to that NIC (PXN).
  bool relayed = false;
  Protocol protocol = Protocol::kSimple;
  uint64_t messages = 0;     ///< of this operation
  uint32_t window = 8;       ///< messages in flight
  uint32_t capacity = 0;     ///< bytes that a credit offers
  uint32_t slice_steps = 1;  ///< buffer steps of one message
  uint32_t chunk_steps = 1;  ///< the step counter is rounded up to it before the operation
  /// Inside a node: how many of the even shares of the sender's link it counts for. What the switch
  /// copies to several GPUs takes the link once.
  uint32_t shares = 1;
  bool in_switch = false;  ///< inside a node: the switch reduces or copies it
  /// Connections of the rank with the same number above 0 are served by one primitive: it handles
  /// message k of all of them at a time.
  uint32_t joint = 0;
};

/// How an operation uses a connection. Messages of two operations of one group follow each other in
/// one window if it is the same.
constexpr uint32_t use_of(const Connection& c) {
  return c.slice_steps << 24 | c.window << 8 | static_cast<uint32_t>(c.protocol) << 1 |
         (c.joint == 0 ? 0 : 1);
}

struct Message {
  uint32_t data = 0;    ///< bytes of the buffer; 0 is a real message
  uint32_t wire = 0;    ///< bytes that the protocol sends for them
  uint64_t offset = 0;  ///< of the first byte, in the larger of the operation's buffers
  constexpr bool operator==(const Message&) const = default;
};

/// That the rank's message `message` of its connection `connection` has arrived, or is done.
/// Without initial values: a list of them costs nothing to make.
struct Wait {
  enum class Moment : uint8_t { kArrival, kDone };
  Moment moment;
  uint32_t connection;  ///< position in RankSchedule::connections()
  uint64_t message;
  constexpr bool operator==(const Wait&) const = default;
};

/// What a message waits for. Messages of one connection are in order: those before are meant too.
class Waits {
 public:
  static constexpr uint32_t kMost = 40;
  void add(Wait::Moment moment, uint32_t connection, uint64_t message) {
    list_[count_++] = {moment, connection, message};
  }
  Wait* begin() { return list_.data(); }
  Wait* end() { return list_.data() + count_; }
  const Wait* begin() const { return list_.data(); }
  const Wait* end() const { return list_.data() + count_; }
  uint32_t size() const { return count_; }

 private:
  uint32_t count_ = 0;
  std::array<Wait, kMost> list_;
};

/// The part of one rank in one operation.
class RankSchedule {
 public:
  virtual ~RankSchedule() = default;
  const std::vector<Connection>& connections() const { return connections_; }
  /// Message `k` < messages of connection `connection`, O(1). What one end sends is what the other
  /// end receives.
  virtual Message message(uint32_t connection, uint64_t k) const = 0;
  /// The end of messages from `k` on of which each has as many bytes as the one two before it, as
  /// far as that is easily told; at least k + 1.
  virtual uint64_t alternates_until(uint32_t connection, uint64_t k) const {
    static_cast<void>(connection);
    return k + 1;
  }
  /// What the kernel waits for before it is done with this message, besides its own arrival.
  virtual Waits waits(uint32_t connection, uint64_t k) const = 0;
  /// Whether waits() may name messages that are more than a window older than the last one.
  virtual bool names_old_messages() const { return false; }

  /// Of how many parts message `k` that the rank sends is made, without gaps that mean nothing; and
  /// each of them, in the order of their places. 0: its values are not described.
  virtual uint32_t value_parts(uint32_t connection, uint64_t k) const {
    static_cast<void>(connection), static_cast<void>(k);
    return 0;
  }
  virtual ValuePart value_part(uint32_t connection, uint64_t k, uint32_t part) const {
    static_cast<void>(connection), static_cast<void>(k), static_cast<void>(part);
    return {};
  }
  /// The same of the parts of the rank's result that it has when it is done with received message
  /// `k`; what it has of itself is not among them.
  virtual uint32_t result_parts(uint32_t connection, uint64_t k) const {
    static_cast<void>(connection), static_cast<void>(k);
    return 0;
  }
  virtual ValuePart result_part(uint32_t connection, uint64_t k, uint32_t part) const {
    static_cast<void>(connection), static_cast<void>(k), static_cast<void>(part);
    return {};
  }

 protected:
  std::vector<Connection> connections_;
};

/// Where the other end of a connection is.
struct FarEnd {
  uint32_t rank = 0;
  uint32_t connection = 0;  ///< of that rank
};
/// Of each connection of each rank, by rank and connection. Nothing if one has a single end.
std::optional<std::vector<std::vector<FarEnd>>> far_ends(
    std::span<const RankSchedule* const> ranks);

/// From a rank to another one of its node.
struct NodeWay {
  Rate rate;                      ///< of a rank; its ways there share it evenly
  Duration latency;               ///< one way
  uint32_t switch_percent = 100;  ///< of the rate that what the switch reduces or copies reaches

  /// Of a message of `bytes` on a connection, one of the `shares` of the link.
  Duration time_for(const Connection& connection, uint64_t bytes, uint32_t shares) const {
    const uint64_t whole = bytes * shares;
    return rate.time_for(connection.in_switch ? whole * 100 / switch_percent : whole);
  }
};
/// Ways inside its node by which a rank sends messages, as even shares of its link.
uint32_t ways_out(const RankSchedule& rank);

/// Why NCCL would not carry out this operation so, naming what is wrong; empty if it would.
Result<void> check_operation(const Communicator& communicator, const Operation& operation);

/// The part of `rank` in an operation that passed check_operation(). `cut` is the operation's, of
/// cut_group(); send/recv has none.
std::unique_ptr<RankSchedule> rank_schedule(const Communicator& communicator,
                                            const Operation& operation, const OperationCut& cut,
                                            uint32_t rank);
/// The parts of all ranks, which share what is alike.
std::vector<std::shared_ptr<const RankSchedule>> rank_schedules(const Communicator& communicator,
                                                                const Operation& operation,
                                                                const OperationCut& cut);

}  // namespace understudy
