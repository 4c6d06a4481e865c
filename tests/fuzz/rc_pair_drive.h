// Any bytes as a program of verbs and as all that happens to its packets: the two queue pairs must
// come to what the model says, whatever is lost, repeated, late, damaged or thrown in by a
// stranger.
#pragma once

#include <cstdio>

#include "dataplane/base/pattern.h"
#include "tests/fuzz/input.h"
#include "tests/rc/model_run.h"

namespace understudy {

/// Input: the program's attributes, a number of steps of 6 bytes each, then two bytes a decision;
/// what is decided behind the input's end follows from its attributes.
class RcPairDrive {
 public:
  explicit RcPairDrive(std::span<const uint8_t> bytes) : in_(bytes) {
    program_.mtu = 256u << in_.byte() % 3;
    program_.depth = 1 + in_.byte() % 4;
    program_.flow_control = in_.byte() % 2 != 0;
    for (uint32_t& psn : program_.first_psn) psn = (Psn::kMask - in_.byte()) & Psn::kMask;
    ModelLink& link = program_.link;
    for (uint32_t* permille :
         {&link.lost, &link.repeated, &link.reordered, &link.corrupted, &link.forged}) {
      *permille = in_.byte() % 251u;
    }
    for (unsigned n = in_.byte() % 24u; n > 0; --n) add_step();
    make_sound(program_);
  }

  const ModelProgram& program() const { return program_; }
  /// What went wrong, or an empty text.
  std::string run() {
    std::mt19937_64 rest(program_.steps.size());
    return run_and_compare(program_, model_outcome(program_), nullptr, [&] {
      if (in_.done()) return rest();
      return splitmix64(in_.byte() | uint64_t{in_.byte()} << 8);
    });
  }

 private:
  void add_step() {
    ModelStep s;
    const uint8_t kind = in_.byte();
    s.side = kind >> 7;
    s.fence = (kind & 64) != 0;
    s.op = static_cast<WorkOp>(kind % 8);
    s.at = in_.byte() * 8u;
    s.length = in_.byte() * 8u % kMostModelBytes + in_.byte() % 8u;
    s.value = in_.byte() * 256u + in_.byte();
    if (s.op == WorkOp::kSendInvalidate) {
      if (tickets_[s.side] == kModelTickets) {
        s.op = WorkOp::kSend;
      } else {
        s.value = tickets_[s.side]++;
      }
    }
    s.length = std::min(s.length, kMostModelBytes);
    program_.steps.push_back(s);
  }

  FuzzInput in_;
  ModelProgram program_;
  uint32_t tickets_[2] = {};
};

inline void drive_rc_pair(std::span<const uint8_t> bytes) {
  RcPairDrive drive(bytes);
  const std::string failure = drive.run();
  if (failure.empty()) return;
  std::fprintf(stderr, "%s\n%s", failure.c_str(), program_text(drive.program()).c_str());
  std::abort();
}

}  // namespace understudy
