#include "collective_model/iteration/iteration.h"

namespace understudy {
namespace {

Time before(std::span<const Time> done, Time begin, size_t operation) {
  return operation == 0 ? begin : done[operation - 1];
}

}  // namespace

RankSteps repeated_steps(const RankWork& work) {
  RankSteps out{work.steps, work.per_iteration};
  const size_t n = work.per_iteration;
  while (out.first.size() >= 2 * n &&
         std::equal(out.first.end() - static_cast<ptrdiff_t>(n), out.first.end(),
                    out.first.end() - static_cast<ptrdiff_t>(2 * n))) {
    out.first.resize(out.first.size() - n);
  }
  return out;
}

std::vector<RankIteration> iterations_of(const RankWork& work, std::span<const Time> done,
                                         Time begin) {
  std::vector<RankIteration> out;
  EntryClock clock;
  for (size_t o = 0; o < done.size(); ++o) {
    const bool first = o % work.per_iteration == 0, last = (o + 1) % work.per_iteration == 0;
    if (first) out.push_back({begin, begin, Duration(), 0});
    RankIteration& iteration = out.back();
    const EntryStep& step = work.steps[o];
    clock.enter(step, before(done, begin, o));
    iteration.compute += step.compute;
    // What the iteration before had left to do is in the first step too.
    if (first && o > 0) iteration.compute -= work.after + work.pause;
    // The rank went on when the one before was done: its time, and that of those it followed,
    // shows.
    const bool waited = !first && (step.waits || before(done, begin, o) > clock.computed());
    iteration.exposed = waited ? iteration.exposed + 1 : 1;
    if (!last) continue;
    const Time computed = clock.computed() + work.beside;
    if (done[o] <= computed) iteration.exposed = 0;
    iteration.end = std::max(computed, done[o]) + work.after;
    iteration.compute += work.beside + work.after;
    begin = iteration.end + work.pause;
  }
  return out;
}

std::vector<ComputeSpan> compute_spans(const RankWork& work, std::span<const Time> done,
                                       Time begin) {
  std::vector<ComputeSpan> out;
  EntryClock clock;
  const auto add = [&](Time end, Duration length) {
    if (length > Duration()) out.push_back({end - length, length});
  };
  for (size_t o = 0; o < done.size(); ++o) {
    const bool first = o % work.per_iteration == 0 && o > 0;
    clock.enter(work.steps[o], before(done, begin, o));
    add(clock.computed(), work.steps[o].compute - (first ? work.after + work.pause : Duration()));
    if ((o + 1) % work.per_iteration != 0) continue;
    const Time computed = clock.computed() + work.beside;
    add(computed, work.beside);
    add(std::max(computed, done[o]) + work.after, work.after);
  }
  return out;
}

}  // namespace understudy
