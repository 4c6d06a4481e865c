// GOAL schedules: of each rank sends, receives and calculations, and which of them requires which; the
// input of LogGOPSim and ATLAHS. Facts from spcl/LogGOPSim (76451de): text src/LogGOPSim/txt2bin.re,
// binary form src/LogGOPSim/Parser.hpp, what operations take src/LogGOPSim/LogGOPSim.cpp; generated
// schedules: spcl/atlahs, goal_gen/ai/nccl_goal_generator.
//
//   num_ranks 2
//   rank 0 {
//   l1: calc 100
//   l2: send 10b to 1 tag 3 cpu 0 nic 0
//   l2 requires l1
//   }
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective_model/traces/trace_system.h"

namespace understudy {

struct GoalOperation {
  /// Numbers are those of the binary form.
  enum class Kind : uint8_t { kSend = 1, kReceive = 2, kCalculation = 3 };
  Kind kind = Kind::kCalculation;
  uint64_t size = 0;  ///< bytes; kCalculation: ns
  uint32_t peer = 0;  ///< kSend, kReceive; kReceive: kAnyGoalPeer
  uint32_t tag = 0;   ///< kSend, kReceive; kAnyGoalTag
  uint8_t cpu = 0, nic = 0;
  std::string label = {};  ///< the text has one

  bool operator==(const GoalOperation&) const = default;
};
inline constexpr uint32_t kAnyGoalPeer = ~uint32_t{0};
inline constexpr uint32_t kAnyGoalTag = ~uint32_t{0};

struct GoalRank {
  struct Requirement {
    uint32_t waits = 0, former = 0;  ///< operations of the rank
    bool start = false;              ///< "irequires": until the former has begun, not ended
    bool operator==(const Requirement&) const = default;
  };
  std::vector<GoalOperation> operations;
  std::vector<Requirement> requirements;  ///< in the order in which they were written
  bool operator==(const GoalRank&) const = default;
};

struct GoalSchedule {
  std::vector<GoalRank> ranks;
  bool operator==(const GoalSchedule&) const = default;
};

/// Whether these are the first bytes of a schedule: "num_ranks" behind comments, or the binary form's
/// number.
bool looks_like_goal(const std::string& bytes);

/// Either form. `name` is that of the file, for errors; they name line, or byte with rank and operation.
/// Labels may be used before they stand; ranks may come in any order.
Result<GoalSchedule> read_goal(const std::string& bytes, const std::string& name);

std::string goal_text(const GoalSchedule& schedule);
/// The same bytes that LogGOPSim's txt2bin makes of goal_text(), where ranks come in order.
std::string goal_binary(const GoalSchedule& schedule);

/// A trace of each rank: calculations are computing outside the CPU, ids count operations from 0. What
/// lists of slots do not know is left out, and said in the job's notes: cpus and nics other than 0. Errors
/// name rank and operation: "irequires", a source or tag of -1.
Result<TraceJob> goal_traces(const GoalSchedule& schedule);

/// Of all ranks together.
inline constexpr uint64_t kMostGoalOperations = 50'000'000;

/// Traces as a schedule. Computing is on cpu 0, what is on the CPU on cpu 1, each for its recorded time.
/// A collective is cut into messages of at least a byte, whose tags are 250,000,000 or more and of one
/// collective and step: all-reduce, reduce-scatter and all-gather go around the ring of their group; of an
/// all-to-all each part goes straight to its rank. A rank sends one message of a collective after another.
/// The k-th collective of a group on one rank (by ids) meets the k-th on the others. Adding up and copying
/// takes no time. Errors name rank and node: other nodes and collectives, collectives over some dimensions,
/// groups that are not given, collectives that do not meet, messages that a tag does not tell apart.
Result<GoalSchedule> goal_of(const TraceJob& job);

}  // namespace understudy
