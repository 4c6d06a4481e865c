// Whether inference is right as often as it says it is: sequences of operations that are drawn at
// random are inferred from the messages of their own schedules. With INFERENCE_TABLE set the share of
// right operations stands beside the confidence (tools/experiments/inference_table).
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>

#include "collective_model/inference/belief.h"
#include "tests/collective_model/inference_rig.h"
#include "tests/extent.h"

namespace understudy {
namespace {

/// What programs do, more or less.
enum class Habit : uint8_t {
  kAnything,  ///< each operation is drawn alone
  kRepeats,   ///< of few operations, in any order
  kOneSize,   ///< of one size and protocol, any collective: what is alike on the wire
  kTraining,  ///< the same few all-reduces, reduce-scatters and all-gathers, iteration after iteration
};
constexpr std::array kHabits = {Habit::kAnything, Habit::kRepeats, Habit::kOneSize,
                                Habit::kTraining};
constexpr const char* kHabitNames[] = {"anything", "repeats", "one size", "training"};

uint64_t number_of(const char* name, uint64_t standard) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : std::strtoull(text, nullptr, 10);
}

/// One run: a communicator, its real ranks and what they do.
struct Case {
  Communicator communicator;
  std::vector<uint32_t> real;
  std::vector<Operation> operations;
  DeliveryOrder way = DeliveryOrder::kAtOnce;
  uint64_t seed = 0;
  std::optional<uint32_t> slow;  ///< a rank that is late all the time
  uint64_t turns = 1;

  Case(uint64_t number, Habit habit) {
    std::mt19937_64 random(number * 7919 + static_cast<uint64_t>(habit));
    communicator = nodes_of(static_cast<uint32_t>(draw(random, 2, 6)),
                            static_cast<uint32_t>(draw(random, 1, 3)), 1,
                            static_cast<uint32_t>(draw(random, 18, 31)));
    if (random() % 4 == 0) communicator.gpus = static_cast<uint32_t>(draw(random, 2, 3));
    const auto node = static_cast<uint32_t>(random() % communicator.nodes);
    for (uint32_t g = 0; g < communicator.gpus; ++g) real.push_back(node * communicator.gpus + g);
    if (habit == Habit::kTraining) {
      train(random);
    } else {
      for (uint64_t i = draw(random, 1, 6); i > 0; --i) operations.push_back(next(random, habit));
    }
    way = static_cast<DeliveryOrder>(random() % 3);
    seed = random();
    if (random() % 2 == 0) {
      slow = static_cast<uint32_t>(random() % communicator.ranks());
      turns = draw(random, 1, 20);
    }
  }

  Operation next(std::mt19937_64& random, Habit habit) const {
    Operation o = draw_operation(random, communicator);
    if (operations.empty()) return o;
    if (habit == Habit::kRepeats && random() % 2 == 0)
      return operations[random() % operations.size()];
    if (habit != Habit::kOneSize) return o;
    o.protocol = operations[0].protocol;
    if (is_pipeline(o.collective) || random() % 2 == 0) o.algorithm = Algorithm::kRing;
    o.count = std::max<uint64_t>(1, operations[0].bytes() / element_bytes(o.type));
    return check_operation(communicator, o) ? o : operations[0];
  }

  void train(std::mt19937_64& random) {
    constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kAllGather,
                                     Collective::kReduceScatter};
    std::vector<Operation> iteration;
    for (uint64_t i = draw(random, 1, 3); i > 0; --i) {
      Operation o = operation_of(kKinds[random() % 3], draw(random, 1, 64) << draw(random, 2, 17));
      if (random() % 4 == 0) o.protocol = static_cast<Protocol>(random() % 3);
      if (check_operation(communicator, o)) iteration.push_back(o);
    }
    for (uint64_t i = draw(random, 2, 4); i > 0; --i) {
      operations.insert(operations.end(), iteration.begin(), iteration.end());
    }
  }

  Played played() const {
    Played all(communicator, real, operations, seed, way);
    if (slow) all.slow_down(*slow, turns);
    return all;
  }
};

bool is(const Operation& taken, const Operation& truth) {
  return taken.collective == truth.collective && taken.algorithm == truth.algorithm &&
         taken.protocol == truth.protocol && taken.bytes() == truth.bytes() &&
         (!has_root(truth.collective) || taken.root == truth.root);
}

/// Of operations with a confidence of some range.
struct Share {
  uint64_t operations = 0, right = 0;
  double confidence = 0;  ///< sum
};
constexpr double kRanges[] = {0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0};

class Calibration {
 public:
  void add(double confidence, bool right) {
    size_t at = 0;
    while (at < std::size(kRanges) && confidence >= kRanges[at]) ++at;
    Share& share = shares_[at];
    ++share.operations;
    share.right += right ? 1 : 0;
    share.confidence += confidence;
  }
  void print(const char* name) const {
    for (size_t at = 0; at < shares_.size(); ++at) {
      const Share& s = shares_[at];
      if (s.operations == 0) continue;
      const auto count = static_cast<double>(s.operations);
      std::printf("%-9s %12s %10lu %10.3f %10.3f\n", name, range(at).c_str(), s.operations,
                  s.confidence / count, static_cast<double>(s.right) / count);
    }
  }
  const Share& sure() const { return shares_.back(); }
  static std::string range(size_t at) {
    char text[32];
    if (at == std::size(kRanges)) return "1";
    std::snprintf(text, sizeof text, "%.2f..%.2f", at == 0 ? 0 : kRanges[at - 1], kRanges[at]);
    return text;
  }

 private:
  std::array<Share, std::size(kRanges) + 1> shares_;
};

/// Whenever nothing else explains what came, it was that: whatever the order in which operations
/// and ranks follow one another, with late ranks, ranks that leave early and several real ranks.
TEST(InferenceConfidence, WhatIsSureIsRight) {
  const bool table = std::getenv("INFERENCE_TABLE") != nullptr;
  const uint64_t first = number_of("INFERENCE_SEED", 1),
                 cases = number_of("INFERENCE_CASES", every_case() ? 250 : 100);
  if (table) {
    std::printf("%-9s %12s %10s %10s %10s\n", "habit", "confidence", "operations", "mean", "right");
  }
  for (const Habit habit : kHabits) {
    Calibration calibration;
    for (uint64_t number = first; number < first + cases; ++number) {
      const Case drawn(number, habit);
      SCOPED_TRACE("case " + std::to_string(number) + " of " +
                   kHabitNames[static_cast<size_t>(habit)] + ": " +
                   describe(drawn.communicator, drawn.operations));
      Played played = drawn.played();
      ASSERT_TRUE(played.play());
      Beliefs beliefs(drawn.communicator.ranks(), {});
      for (const InferredOperation& verdict : played.verdicts()) {
        if (verdict.candidates.empty()) continue;  // nothing is taken for it: track is lost
        const Operation taken = beliefs.likeliest(verdict);
        const Belief belief = beliefs.judge(verdict, taken);
        const Operation* truth = played.begun_at(verdict.first_message);
        const bool right = truth != nullptr && is(taken, *truth);
        calibration.add(belief.confidence, right);
        EXPECT_EQ(belief.confidence == 1, verdict.unique());
        ASSERT_TRUE(Inference::fits(verdict, taken)) << text_of(verdict);
        ASSERT_TRUE(right || belief.confidence < 1)
            << text_of(verdict) << " at " << verdict.first_message;
      }
    }
    EXPECT_GT(calibration.sure().operations, cases / 20) << "what is never sure is never wrong";
    if (table) calibration.print(kHabitNames[static_cast<size_t>(habit)]);
  }
}

}  // namespace
}  // namespace understudy
