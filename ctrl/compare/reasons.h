// Why the speeds of a comparison differ: rules about the configuration, what the closed form says
// of its own network, and what the packets' run counted.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ctrl/compare/comparison.h"

namespace understudy {

class Reasons {
 public:
  /// All outlive this. `packets`: the run packet by packet, if there was one.
  Reasons(const Config& config, const std::vector<Prediction>& predictions,
          const std::optional<RunReport>& packets)
      : config_(config), predictions_(predictions), packets_(packets) {}

  /// Fills in the reasons of a row whose times differ.
  void explain(const ComparedPart& part, ComparedRow& row) const;
  /// What none of the speeds knows.
  std::vector<std::string> not_modelled() const;

 private:
  void explain_prediction(const ComparedPart& part, ComparedRow& row) const;
  void explain_flow(ComparedRow& row) const;
  uint64_t counted(const std::string& counter) const;

  const Config& config_;
  const std::vector<Prediction>& predictions_;
  const std::optional<RunReport>& packets_;
};

}  // namespace understudy
