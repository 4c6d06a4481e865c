// The plan of any operation: all emulated ranks folded into one environment, whose messages and
// credits to the real ranks follow from theirs. The recurrence is evaluated exactly (integer
// picoseconds) as the real ranks' messages arrive, for any schedule (schedule.h) and any set of
// real ranks. plan.h has the special case of one ring in a window of four messages a rank.
//
// Every rank, real or emulated, does what RankSchedule says. Of an emulated one, with w the window
// of a connection:
//   done(k)    = max(entry, done(k-1), arrival(k) + step cost (receives), acked(k-w) (sends), and
//   of
//                what message k waits for: done, or arrival + step cost). The connections of one
//                joint are done with message k together.
//   start(k)   = max(done(k), end(k-1), arrival of credit k)            of a send
//   end(k)     = start(k) + wire time;  arrival(k) = end(k) + latency;  acked(k) = arrival +
//   latency credit k   = entry for k < w, else done(k-w) of the receiver; it arrives a latency
//   later.
// Each connection has its own rate, a share of its link where several use it. Ways inside a node
// take no time, and a message's buffer there is free when it has been used.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collective_model/plan.h"
#include "collective_model/schedule.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

struct EnvironmentConfig {
  std::vector<std::shared_ptr<const RankSchedule>> ranks;  ///< of one operation
  std::vector<uint32_t> real = {};
  /// Of each rank's connection that sends over the network: the way to its receiver.
  std::vector<std::vector<RingHop>> hops = {};
  std::vector<Duration> entry_delay = {};  ///< by rank, after the operation's entry; empty: none
  WireCost wire = {};
  Duration step_cost = {};
};

/// What crosses from the emulated ranks to a real one.
struct EnvironmentOutput {
  enum class Kind : uint8_t {
    kData,    ///< emulated `rank` may start to send message `message` of its connection
    kCredit,  ///< emulated `rank` grants its predecessor the credit for that message
  };
  Kind kind = Kind::kData;
  uint32_t rank = 0;
  uint32_t connection = 0;  ///< of this rank
  uint64_t message = 0;
  Time time;
};

/// One operation's progress. Allocates when it is made only, but for outputs that nobody takes.
///
/// Data outputs leave out what the transport and the fabric enforce: the real rank's credit, and
/// the sender's own link. Feed inputs in the order of their times: outputs are then never earlier
/// than the input that set them free.
class Environment {
 public:
  /// Fails, naming the field, when the numbers do not fit together.
  static Result<Environment> make(EnvironmentConfig config);
  /// The same with every rank emulated: what an operation takes when nothing but the model delays
  /// it. No input is needed, and there is no output.
  static Result<Environment> make_ideal(EnvironmentConfig config);

  /// Begins an operation, the first one or another when all messages of the one before have come
  /// in: ranks enter at `entry` and their delay.
  void start(Time entry);
  /// The same, rank by rank: begin(), then enter() once for every emulated rank, as late as its
  /// entry is known.
  void begin();
  void enter(uint32_t rank, Time entry);
  /// The message `k` that comes on connection `connection` of emulated rank `rank`, from a real
  /// one, has wholly arrived at `t`. False, and ignored, when it is not the next one.
  bool on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t);
  /// Emulated rank `rank` got the acknowledgement of its messages up to and with `k` to a real one.
  bool on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t);
  /// Takes the next output, in message order of each connection and kind.
  bool next(EnvironmentOutput& out);

  bool finished() const { return unfinished_ == 0; }
  /// Takes the next emulated rank whose completion() has become known.
  bool next_done(uint32_t& rank);
  /// When emulated rank `rank` had done its part; Time::never() before that is known.
  Time completion(uint32_t rank) const {
    return parts_[rank].left == 0 && !parts_[rank].entry.is_never() ? parts_[rank].last
                                                                    : Time::never();
  }

 private:
  struct End {
    uint32_t peer_rank = 0, peer = 0;
    bool real = false;  ///< the other end's rank is
    // Times by message, as far as they are known.
    std::vector<Time> done, arrival, acked, credit;
    uint64_t sent = 0;  ///< messages whose start is known
    Time wire_free;
  };
  struct Part {
    std::vector<End> ends;
    Time entry = Time::never();
    Time last;  ///< the latest that it was done with a message
    uint64_t left = 0;
    bool real = false, queued = false;
  };

  explicit Environment(EnvironmentConfig config);
  const std::vector<Connection>& connections(uint32_t rank) const {
    return config_.ranks[rank]->connections();
  }
  static Result<Environment> checked(EnvironmentConfig config);
  bool join_ends();
  void complete(uint32_t rank);
  void wake(uint32_t rank);
  void settle();
  void advance(uint32_t rank);
  /// When the connection can be done with its next message; never() if that is not known yet.
  Time ready(uint32_t rank, uint32_t connection) const;
  void done(uint32_t rank, uint32_t connection, Time t);
  void send(uint32_t rank, uint32_t connection);
  void grant(uint32_t rank, uint32_t connection, uint64_t k, Time t);
  void emit(EnvironmentOutput::Kind kind, uint32_t rank, uint32_t connection, uint64_t k, Time t);

  EnvironmentConfig config_;
  std::vector<Part> parts_;
  std::vector<uint32_t> work_;
  std::vector<EnvironmentOutput> outputs_;
  size_t taken_ = 0;
  std::vector<uint32_t> done_;  ///< ranks, in the order in which that became known
  size_t done_taken_ = 0;
  size_t unfinished_ = 0;
};

}  // namespace understudy
