#include "ctrl/traces/goal/goal_binary.h"

#include <algorithm>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

// All numbers are little endian, and nothing is padded:
//   number of the form     64 bits
//   ranks                  32 bits
//   highest cpu, nic       8 bits each
//   by rank                where its part begins and where it ends, 64 bits each, from `ranks` on
//   by rank, its part:
//     operations, free ones      32 bits each
//     free ones                  32 bits each: those that require nothing
//     operations                 39 bytes each
//     appendix                   32 bits each: operations that require others
// An operation: how many it requires, 32 bits; kind, 8; peer, 32; size, 64; tag, 32; cpu, nic, 8 each; how
// many require that it ends, and where these stand in the appendix, 32 each; the same of its begin.
constexpr uint64_t kNumber = 4223, kUsedUp = 2342;
constexpr size_t kBeforeRanks = 8, kHeader = 6, kJump = 16, kOperation = 39;

uint64_t number_at(const std::string& bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  }
  return value;
}

void put(std::string& to, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) to += static_cast<char>(value >> (8 * i));
}

class GoalBinary {
 public:
  GoalBinary(const std::string& bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<GoalSchedule> read() {
    if (number_at(bytes_, 0, 8) == kUsedUp) {
      return wrong(0, "a run of LogGOPSim (--save-mem) has used this schedule up");
    }
    if (bytes_.size() < kBeforeRanks + kHeader) return wrong(bytes_.size(), "the file ends early");
    const auto ranks = static_cast<uint32_t>(number_at(bytes_, kBeforeRanks, 4));
    const uint64_t parts = kHeader + uint64_t{kJump} * ranks;
    if (ranks == 0) return wrong(kBeforeRanks, "there are no ranks");
    if (parts > bytes_.size() - kBeforeRanks) {
      return wrong(kBeforeRanks, "the file is too short for " + std::to_string(ranks) + " ranks");
    }
    GoalSchedule schedule;
    uint64_t last = parts;
    for (rank_ = 0; rank_ < ranks; ++rank_) {
      const size_t jump = kBeforeRanks + kHeader + kJump * rank_;
      const uint64_t begin = number_at(bytes_, jump, 8), end = number_at(bytes_, jump + 8, 8);
      if (begin < last || end < begin || end > bytes_.size() - kBeforeRanks) {
        return wrong(jump, "rank " + std::to_string(rank_) +
                               ": its part is not behind the one before, or not in the file");
      }
      last = end;
      schedule.ranks.push_back(TRY(rank(begin + kBeforeRanks, end + kBeforeRanks, ranks)));
    }
    return schedule;
  }

 private:
  tl::unexpected<Error> wrong(size_t at, const std::string& what) const {
    return fail(name_ + ": at byte " + std::to_string(at) + ": " + what);
  }
  tl::unexpected<Error> wrong_operation(size_t at, uint64_t number, const std::string& what) const {
    return wrong(at, "rank " + std::to_string(rank_) + ", operation " + std::to_string(number) +
                         ": " + what);
  }

  Result<GoalRank> rank(size_t begin, size_t end, uint32_t ranks) {
    const std::string who = "rank " + std::to_string(rank_) + ": ";
    if (end - begin < 8) return wrong(begin, who + "its part has no numbers of operations");
    const uint64_t count = number_at(bytes_, begin, 4), free = number_at(bytes_, begin + 4, 4);
    const uint64_t before = 8 + 4 * free + kOperation * count;
    if (before > end - begin) {
      return wrong(begin, who + "its part is too short for " + std::to_string(count) +
                              " operations, " + std::to_string(free) + " of them free");
    }
    const size_t operations = begin + 8 + 4 * free, appendix = begin + before;
    const uint64_t listed = (end - appendix) / 4;
    GoalRank made;
    std::vector<uint32_t> requires_so_many(count);
    uint64_t used = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const size_t at = operations + kOperation * i;
      made.operations.push_back(TRY(operation(at, i, ranks)));
      for (const bool start : {false, true}) {
        const size_t numbers = at + (start ? 31 : 23);
        const uint64_t some = number_at(bytes_, numbers, 4),
                       first = number_at(bytes_, numbers + 4, 4);
        used += some;
        if (some == 0) continue;
        if (first + some > listed || used > listed) {
          return wrong_operation(numbers, i, "those that require it are not in the appendix");
        }
        for (uint64_t k = first; k < first + some; ++k) {
          const auto waits = static_cast<uint32_t>(number_at(bytes_, appendix + 4 * k, 4));
          if (waits >= count) {
            return wrong_operation(
                appendix + 4 * k, i,
                "there is no operation " + std::to_string(waits) + " that could require it");
          }
          made.requirements.push_back({waits, static_cast<uint32_t>(i), start});
          ++requires_so_many[waits];
        }
      }
    }
    for (uint64_t i = 0; i < count; ++i) {
      const size_t at = operations + kOperation * i;
      const uint64_t said = number_at(bytes_, at, 4);
      if (said == requires_so_many[i]) continue;
      return wrong_operation(at, i,
                             "it is said to require " + std::to_string(said) + " operations, and " +
                                 std::to_string(requires_so_many[i]) + " say so");
    }
    return made;
  }

  Result<GoalOperation> operation(size_t at, uint64_t number, uint32_t ranks) const {
    const uint64_t kind = number_at(bytes_, at + 4, 1);
    if (kind < 1 || kind > 3) {
      return wrong_operation(at + 4, number, "its kind is " + std::to_string(kind));
    }
    GoalOperation made;
    made.kind = static_cast<GoalOperation::Kind>(kind);
    made.size = number_at(bytes_, at + 9, 8);
    if (made.kind != GoalOperation::Kind::kCalculation) {  // of others these say nothing
      made.peer = static_cast<uint32_t>(number_at(bytes_, at + 5, 4));
      made.tag = static_cast<uint32_t>(number_at(bytes_, at + 17, 4));
    }
    made.cpu = static_cast<uint8_t>(number_at(bytes_, at + 21, 1));
    made.nic = static_cast<uint8_t>(number_at(bytes_, at + 22, 1));
    const bool any = made.kind == GoalOperation::Kind::kReceive && made.peer == kAnyGoalPeer;
    if (made.kind != GoalOperation::Kind::kCalculation && made.peer >= ranks && !any) {
      return wrong_operation(at + 5, number, "there is no rank " + std::to_string(made.peer));
    }
    return made;
  }

  const std::string& bytes_;
  const std::string& name_;
  uint32_t rank_ = 0;
};

/// Of one rank. Of each operation those that require its end come before those that require its begin.
std::string part_of(const GoalRank& rank) {
  const size_t count = rank.operations.size();
  struct Waiting {
    std::vector<uint32_t> end, begin;
  };
  std::vector<Waiting> waiting(count);
  std::vector<uint32_t> requires_so_many(count);
  for (const auto& [waits, former, start] : rank.requirements) {
    (start ? waiting[former].begin : waiting[former].end).push_back(waits);
    ++requires_so_many[waits];
  }
  std::string part;
  put(part, count, 4);
  put(part, static_cast<uint64_t>(std::ranges::count(requires_so_many, 0u)), 4);
  for (size_t i = 0; i < count; ++i) {
    if (requires_so_many[i] == 0) put(part, i, 4);
  }
  uint64_t listed = 0;
  for (size_t i = 0; i < count; ++i) {
    const GoalOperation& operation = rank.operations[i];
    put(part, requires_so_many[i], 4);
    put(part, static_cast<uint64_t>(operation.kind), 1);
    put(part, operation.peer, 4);
    put(part, operation.size, 8);
    put(part, operation.tag, 4);
    put(part, operation.cpu, 1);
    put(part, operation.nic, 1);
    for (const auto* some : {&waiting[i].end, &waiting[i].begin}) {
      put(part, some->size(), 4);
      put(part, listed, 4);
      listed += some->size();
    }
  }
  for (const Waiting& all : waiting) {
    for (const uint32_t waits : all.end) put(part, waits, 4);
    for (const uint32_t waits : all.begin) put(part, waits, 4);
  }
  return part;
}

}  // namespace

bool is_goal_binary(const std::string& bytes) {
  if (bytes.size() < kBeforeRanks) return false;
  const uint64_t number = number_at(bytes, 0, 8);
  return number == kNumber || number == kUsedUp;
}

Result<GoalSchedule> read_goal_binary(const std::string& bytes, const std::string& name) {
  return GoalBinary(bytes, name).read();
}

std::string goal_binary(const GoalSchedule& schedule) {
  uint8_t cpu = 0, nic = 0;
  for (const GoalRank& rank : schedule.ranks) {
    for (const GoalOperation& operation : rank.operations) {
      cpu = std::max(cpu, operation.cpu);
      nic = std::max(nic, operation.nic);
    }
  }
  std::string header, parts;
  put(header, kNumber, 8);
  put(header, schedule.ranks.size(), 4);
  put(header, cpu, 1);
  put(header, nic, 1);
  const size_t before = kHeader + kJump * schedule.ranks.size();
  for (const GoalRank& rank : schedule.ranks) {
    put(header, before + parts.size(), 8);
    parts += part_of(rank);
    put(header, before + parts.size(), 8);
  }
  return header + parts;
}

}  // namespace understudy
