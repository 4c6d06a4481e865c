// The plan of one operation as whoever runs it sees it: messages of real ranks and acknowledgements
// go in, the moments at which emulated ranks may send to them and grant them credits come out.
// make_plan() takes the evaluator: for rings and trees those that work out many emulated ranks at a
// time (closed_ring.h, closed_tree.h), for all-to-all and PAT those that list no
// connections (all_to_all_plan.h, symmetric_plan.h), else the general one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collective_model/plan/wire_cost.h"
#include "collective_model/schedule/schedule.h"
#include "dataplane/base/result.h"
#include "dataplane/base/units.h"

namespace understudy {

class SymmetricRanks;
class AllToAll;
class PairHops;

struct PlanInput {
  std::vector<std::shared_ptr<const RankSchedule>> ranks;  ///< of one operation
  std::vector<uint32_t> real = {};
  /// Of each rank's connection that sends over the network: the way to its receiver.
  std::vector<std::vector<Hop>> hops = {};
  /// Of each connection of each rank, at both ends, between emulated ranks: its messages, credits
  /// and acknowledgements go through the fabric, which gives their delays at run time, instead of
  /// taking a hop. To the caller they are as those to real ranks. Empty: none.
  std::vector<std::vector<bool>> carried = {};
  std::vector<Duration> entry_delay = {};  ///< by rank, after the operation's entry; empty: none
  WireCost wire = {};
  Duration step_cost = {};
  /// Inside a node a message takes its bytes' time, behind those of its connection before it, and
  /// the latency; that its buffer is free again is known a latency later too. Without: no time.
  std::optional<NodeWay> inside = {};
  /// Of an all-to-all (all_to_all.h), or of ranks that all do the same (symmetric_ranks.h), instead
  /// of `ranks` and `hops`, which would list all connections; none is carried.
  std::shared_ptr<const AllToAll> all_to_all = {};
  std::shared_ptr<const SymmetricRanks> alike = {};
  std::shared_ptr<const PairHops> pair_hops = {};
};

/// What crosses from the emulated ranks to a real one, or goes by the fabric to an emulated one.
struct PlanOutput {
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

/// One operation's progress, and of others of the same kind after it. Allocates when it is made
/// only.
///
/// Data outputs leave out what the transport and the fabric enforce: the real rank's credit, and
/// the sender's own link. Feed inputs in the order of their times: outputs are then never earlier
/// than the input that set them free.
class Plan {
 public:
  virtual ~Plan() = default;

  /// Begins an operation, the first one or another when all messages of the one before have come
  /// in: ranks enter at `entry` and their delay.
  virtual void start(Time entry) = 0;
  /// The same, rank by rank: begin(), then enter() once for every emulated rank, as late as its
  /// entry is known.
  virtual void begin() = 0;
  virtual void enter(uint32_t rank, Time entry) = 0;
  /// The message `k` that comes on connection `connection` of emulated rank `rank`, from a real one
  /// or by the fabric, has wholly arrived at `t`. False, and ignored, when it is not the next one,
  /// or has no credit that was taken.
  virtual bool on_real_data(uint32_t rank, uint32_t connection, uint64_t k, Time t) = 0;
  /// Emulated rank `rank` got the acknowledgement of its messages up to and with `k`, to a real one
  /// or by the fabric. False, and ignored, when that is not outstanding.
  virtual bool on_acknowledged(uint32_t rank, uint32_t connection, uint64_t k, Time t) = 0;
  /// Takes the next output, in message order of each connection and kind.
  virtual bool next(PlanOutput& out) = 0;

  virtual bool finished() const = 0;
  /// Takes the next emulated rank whose completion() has become known.
  virtual bool next_done(uint32_t& rank) = 0;
  /// When emulated rank `rank` had done its part; Time::never() before that is known.
  virtual Time completion(uint32_t rank) const = 0;
};

/// Fails, naming the field, when the numbers do not fit together.
Result<std::unique_ptr<Plan>> make_plan(PlanInput config);
/// The same with every rank emulated: what an operation takes when nothing but the model delays it.
/// No input is needed, and there is no output.
Result<std::unique_ptr<Plan>> make_uncongested_plan(PlanInput config);

}  // namespace understudy
