// How sure it is that an inferred operation was what it was taken for: 1 if one operation only
// explains what came, else the share of that operation among all that do, weighed by what was there
// before.
//
// The weights are a Chinese restaurant's. Each earlier operation of the run counts as one, spread
// over all that explained it; so does the configuration, spread over the operations that it names.
// Against all of these stands one operation that was never there before: collectives, algorithms,
// protocols and roots are equally likely, and a size counts once, and once more for each power of two
// above 1 that divides it. So 1 MiB is likelier than the sizes around it, and a size that was there
// before is likelier still.
//
// Where a border does not show, so that an operation may be several, or a part of one, half of the
// weight is on that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collective_model/inference/inference.h"
#include "collective_model/inference/pair_inference.h"

namespace understudy {

/// What is said of one inferred operation.
struct Belief {
  double confidence = 1;      ///< 1 only where nothing else explains what came, else at most 0.999
  uint64_t explanations = 1;  ///< operations that explain it, or SizeSet::kUnbounded
  std::optional<Operation> other = {};  ///< the likeliest one but what it was taken for
};

/// Doubts of less than this are not told apart from each other.
inline constexpr double kMostDoubted = 0.999;

/// The weight of all sizes of a set that are multiples of `element` bytes, if nothing is known.
double size_weight(const SizeSet& sizes, uint32_t element);

class Beliefs {
 public:
  /// `named`: operations that the configuration names.
  Beliefs(uint32_t ranks, std::span<const Operation> named);

  /// What is to be said of an operation that was `taken` for one of its candidates, in the order of
  /// operations: later ones are judged by it.
  Belief judge(const InferredOperation& said, const Operation& taken);
  /// The same of sends and receives. Sizes that are not known are taken for independent of each other;
  /// one that another pair surely has counts as one that was there before.
  static Belief judge(const PairInference::Found& found);
  /// The likeliest of an operation's candidates. It has some.
  Operation likeliest(const InferredOperation& said) const;

 private:
  using Candidate = InferredOperation::Candidate;
  /// What was there before, as often as `count`, and explained by each of `candidates`.
  struct Table {
    std::vector<Candidate> candidates;
    double weight = 0;  ///< of all of them, if nothing is known
    double count = 0;
  };

  double base(const Candidate& candidate) const;
  double weight(const Candidate& candidate) const;
  std::vector<Candidate> contenders(const InferredOperation& said) const;
  void remember(const std::vector<Candidate>& candidates, double count);

  uint32_t ranks_;
  std::vector<Table> tables_;
};

}  // namespace understudy
