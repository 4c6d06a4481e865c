// Programs of verbs between two queue pairs come to the same over a link that loses, repeats,
// reorders and damages up to a fifth of all packets, and on which somebody else throws in packets
// whose PSNs are outside the window, as over a perfect one. What fails is shrunk before it is
// shown. UNDERSTUDY_FULL=1 runs 200,000 programs instead of 10,000.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/rc/model_run.h"
#include "tests/rc/model_shrink.h"

namespace understudy {
namespace {

uint64_t programs() {
  const char* full = std::getenv("UNDERSTUDY_FULL");
  return full != nullptr && std::string(full) == "1" ? 200'000 : 10'000;
}

ModelProgram calm(ModelProgram program) {
  program.link = {};
  return program;
}

/// Reports the smallest program that still differs.
void expect_as_modelled(const ModelProgram& program, RcCounters& counters) {
  const auto failure = [](const ModelProgram& p) { return run_and_compare(p, model_outcome(p)); };
  if (run_and_compare(program, model_outcome(program), &counters).empty()) return;
  const ModelProgram small =
      shrink(program, [&](const ModelProgram& p) { return !failure(p).empty(); });
  ADD_FAILURE() << failure(small) << "\n" << program_text(small);
}

// rules: A4.1 A4.8 A4.14 A4.16 A4.17 A4.18 A4.19 A5.3 A5.4 A5.5 A5.6
TEST(RcModel, BadLinksChangeNothing) {
  RcCounters counters{};
  for (uint64_t seed = 1; seed <= programs() && !HasFailure(); ++seed) {
    expect_as_modelled(random_program(seed), counters);
  }
  // All that a bad link can cause was there.
  for (const RcEvent e :
       {RcEvent::kDuplicateRequest, RcEvent::kPsnGap, RcEvent::kNakReceived, RcEvent::kRnrReceived,
        RcEvent::kTimeout, RcEvent::kRetransmit, RcEvent::kImpliedNak, RcEvent::kInvalidated}) {
    EXPECT_GT(counters[static_cast<size_t>(e)], 0u) << rc_event_name(e);
  }
}

TEST(RcModel, PerfectLinkIsAsModelled) {
  RcCounters counters{};
  for (uint64_t seed = 1; seed <= programs() / 4 && !HasFailure(); ++seed) {
    expect_as_modelled(calm(random_program(seed)), counters);
  }
  EXPECT_EQ(counters[static_cast<size_t>(RcEvent::kTimeout)], 0u);
  EXPECT_EQ(counters[static_cast<size_t>(RcEvent::kNakSent)], 0u);
}

// The model is not so lenient that anything passes: another program's outcome is told apart.
TEST(RcModel, AnotherOutcomeIsNoticed) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const ModelProgram program = calm(random_program(seed));
    for (size_t i = 0; i < program.steps.size(); ++i) {
      ModelProgram without = program;
      without.steps.erase(without.steps.begin() + static_cast<ptrdiff_t>(i));
      EXPECT_NE(run_and_compare(program, model_outcome(without)), "") << program_text(program) << i;
    }
  }
}

// A failure that needs a WRITE of more than 300 bytes after a READ, on a link that loses packets,
// comes out as just that.
TEST(RcModel, ShrinkingKeepsWhatTheFailureNeeds) {
  const auto fails = [](const ModelProgram& p) {
    bool read = false;
    for (const ModelStep& s : p.steps) {
      read = read || s.op == WorkOp::kRead;
      if (read && s.op == WorkOp::kWrite && s.length > 300 && p.link.lost > 0) return true;
    }
    return false;
  };
  unsigned found = 0;
  for (uint64_t seed = 1; seed <= 90; ++seed) {
    const ModelProgram program = random_program(seed);
    if (!fails(program)) continue;
    ++found;
    const ModelProgram small = shrink(program, fails);
    ASSERT_EQ(small.steps.size(), 2u) << program_text(small);
    EXPECT_EQ(small.steps[0].op, WorkOp::kRead);
    EXPECT_EQ(small.steps[0].length, 0u);
    EXPECT_EQ(small.steps[1].op, WorkOp::kWrite);
    EXPECT_LE(small.steps[1].length, 601u);
    EXPECT_GT(small.link.lost, 0u);
    EXPECT_EQ(small.link.repeated + small.link.reordered + small.link.corrupted + small.link.forged,
              0u);
    EXPECT_FALSE(small.flow_control);
  }
  EXPECT_GT(found, 10u);
}

}  // namespace
}  // namespace understudy
