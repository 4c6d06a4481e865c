// Why the speeds of a comparison differ: what the closed form says of its limits, what meets on the
// links, and what the run packet by packet counted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ctrl/compare/comparison.h"

namespace understudy {

class Reasons {
 public:
  /// All outlive this. `packets`: the run packet by packet, if there was one.
  Reasons(const Config& config, const std::optional<RunReport>& packets)
      : config_(config), packets_(packets) {}

  /// Fills in the reasons of a row whose times differ.
  void explain(ComparedRow& row) const;

 private:
  void explain_closed_form(ComparedRow& row) const;
  void explain_flow(ComparedRow& row) const;
  void add_queues(ComparedRow& row) const;
  void add_counts(ComparedRow& row) const;

  const Config& config_;
  const std::optional<RunReport>& packets_;
};

}  // namespace understudy
