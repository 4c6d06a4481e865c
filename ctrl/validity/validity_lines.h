// The lines that say how far to trust a result: all of their ids, and a list of them to which the
// jobs of a configuration add one by one.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctrl/report/validity_line.h"

namespace understudy {

/// Every id with its kind, in the order in which lines are printed. docs/guides/validity.md says
/// when each appears, and what to do about it.
inline constexpr std::array kValidityIds =
    std::to_array<std::pair<std::string_view, ValidityKind>>({
        {"gpu-costs", ValidityKind::kLimit},
        {"nic-costs", ValidityKind::kLimit},
        {"acks-first", ValidityKind::kLimit},
        {"calibration", ValidityKind::kLimit},
        {"machine", ValidityKind::kLimit},
        {"roofline", ValidityKind::kLimit},
        {"given-times", ValidityKind::kLimit},
        {"given-operations", ValidityKind::kLimit},
        {"recorded", ValidityKind::kLimit},
        {"rings", ValidityKind::kLimit},
        {"nvls", ValidityKind::kLimit},
        {"nvswitch", ValidityKind::kLimit},
        {"pxn", ValidityKind::kLimit},
        {"intra-node", ValidityKind::kLimit},
        {"no-topology", ValidityKind::kLimit},
        {"unlimited-links", ValidityKind::kLimit},
        {"closed-form", ValidityKind::kLimit},
        {"flow-fidelity", ValidityKind::kLimit},
        {"buffers", ValidityKind::kLimit},
        {"congestion-control", ValidityKind::kLimit},
        {"memory", ValidityKind::kDoubt},
        {"inner-times", ValidityKind::kDoubt},
        {"contention", ValidityKind::kDoubt},
        {"uncounted-links", ValidityKind::kDoubt},
        {"beyond-closed-form", ValidityKind::kDoubt},
        {"alone", ValidityKind::kDoubt},
        {"nics", ValidityKind::kDoubt},
        {"one-seed", ValidityKind::kDoubt},
        {"extrapolation", ValidityKind::kDoubt},
        {"unknown-origin", ValidityKind::kDoubt},
        {"not-judged", ValidityKind::kDoubt},
    });

class ValidityLines {
 public:
  /// `id` is one of kValidityIds. `job`: of whose result the line is; empty: of the whole. What
  /// has been said already is not said again.
  void add(std::string_view id, std::string text, const std::string& job = {});
  /// Adds lines that were made for one job.
  void add(const std::vector<ValidityLine>& lines, const std::string& job);
  /// In the order of kValidityIds. A line that does not hold of all `jobs` names those that it
  /// holds of.
  std::vector<ValidityLine> take(size_t jobs) const;

 private:
  struct Entry {
    std::string_view id;
    std::string text;
    std::vector<std::string> jobs;
  };
  std::vector<Entry> entries_;
};

}  // namespace understudy
