// Training iterations: what a rank does besides its collectives, when that lets it enter each of
// them, and how much of their time an iteration is longer than its computing.
//
// A rank has two streams. Collectives follow each other on one; what it computes follows itself on
// the other. Before each collective it computes for a while, then the collective is issued:
//   computed(o) = max(computed(o-1), done(o-1) if it waits) + compute(o)
//   entry(o)    = max(computed(o), done(o-1)) + delay(o)
// That is when every rank enters, real or emulated, in every way of running: it counts from the
// rank's own last end. With a period ranks have a clock in common, and max(...) is rounded up to a multiple of it.
// Computing that waits is what a program without overlap does. With overlap only the first of an
// iteration waits: for all of the one before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/units.h"

namespace understudy {

/// Of one rank before one operation.
struct EntryStep {
  Duration beside = {};   ///< computed first, while the operation before may still run
  bool waits = true;      ///< the rest is not computed before that one is done
  Duration compute = {};  ///< until this one is issued
  Duration delay = {};    ///< from when it could enter until it does
  Duration period = {};   ///< 0: none

  /// All that the rank does in it.
  Duration own() const { return beside + compute + delay; }
  bool operator==(const EntryStep&) const = default;
};

/// One rank's two streams.
class EntryClock {
 public:
  /// When the rank enters its next operation; the one before was done at `done`.
  Time enter(const EntryStep& step, Time done) {
    computed_ += step.beside;
    if (step.waits) computed_ = std::max(computed_, done);
    computed_ += step.compute;
    const Time at = std::max(computed_, done);
    if (step.period == Duration()) return at + step.delay;
    const int64_t period = step.period.ps();
    return Time::from_ps((at.ps() + period - 1) / period * period) + step.delay;
  }
  /// The end of what has been computed.
  Time computed() const { return computed_; }
  /// Its program took so much longer than the step said.
  void shift(Duration more) { computed_ += more; }

 private:
  Time computed_;
};

/// A rank's part in a job.
struct RankWork {
  std::vector<EntryStep> steps;  ///< by operation; those of an iteration stand together
  uint32_t per_iteration = 1;    ///< operations
  Duration beside;  ///< computed once the last operation of an iteration has been issued
  Duration after;   ///< computed once that and the last operation are done
  Duration pause;   ///< between iterations; the first step of each has all three in it
};

/// The steps of a rank, without the iterations at their end that are as the one before them.
struct RankSteps {
  std::vector<EntryStep> first;  ///< whole iterations, or nothing
  uint32_t per_iteration = 1;

  /// `first` is not empty.
  const EntryStep& at(size_t operation) const {
    if (operation < first.size()) return first[operation];
    return first[first.size() - per_iteration + operation % per_iteration];
  }
};
RankSteps repeated_steps(const RankWork& work);

/// What one iteration came to on one rank.
struct RankIteration {
  Time begin, end;
  Duration compute;      ///< all that it computed
  uint32_t exposed = 0;  ///< of its operations, those whose time the rank waited for

  Duration took() const { return end - begin; }
  /// Communication that computing did not hide, what the rank waited for others in it included,
  /// and for its period.
  Duration exposed_time() const { return took() - compute; }
};

/// Of a rank that was done with its operations at `done`. The first iteration begins at `begin`.
std::vector<RankIteration> iterations_of(const RankWork& work, std::span<const Time> done,
                                         Time begin = Time::zero());

/// When the rank began to compute before each operation, and for how long.
struct ComputeSpan {
  Time from;
  Duration length;
};
std::vector<ComputeSpan> compute_spans(const RankWork& work, std::span<const Time> done,
                                       Time begin = Time::zero());

}  // namespace understudy
