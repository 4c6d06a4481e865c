#include "ctrl/report/real_pace.h"

#include <algorithm>

#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

/// Programs start an operation's threads, and NICs answer, in some of it.
constexpr double kWorthSaying = 0.1;

}  // namespace

void RealPace::add(const CollectiveReport& operation) {
  ++operations;
  measured += operation.measured;
  modelled += operation.modelled;
  late += operation.lateness;
}

double RealPace::factor() const {
  if (modelled <= Duration()) return 0;
  return static_cast<double>(measured.ps()) / static_cast<double>(modelled.ps());
}

double RealPace::waited() const {
  if (measured <= Duration()) return 0;
  const double whole = static_cast<double>(measured.ps());
  return std::max(0.0, static_cast<double>((measured - modelled - late).ps()) / whole);
}

bool RealPace::is_worth_saying() const { return operations > 0 && waited() > kWorthSaying; }

RealPace real_pace(const JobReport& job) {
  RealPace pace;
  for (const CollectiveReport& operation : job.collectives) {
    if (!operation.warmup) pace.add(operation);
  }
  return pace;
}

std::string pace_text(const RealPace& pace, bool others) {
  if (!pace.is_worth_saying()) return "";
  const double late = static_cast<double>(pace.late.ps()) / static_cast<double>(pace.measured.ps());
  return "operations took " + format_text("%.2f", pace.factor()) +
         " times as long as modelled, of which emulated ranks were late for " +
         format_text("%.1f", 100 * late) + " % at most: for " +
         format_text("%.0f", 100 * pace.waited()) +
         " % of the time they waited for the real nodes: for their programs, their NICs, or a "
         "machine that is busy" +
         (others ? "; or for what else is on the network (another job, a client, [[traffic]], "
                   "[[event]], [[fault]])"
                 : "");
}

}  // namespace understudy
