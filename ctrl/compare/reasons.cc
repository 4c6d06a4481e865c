#include "ctrl/compare/reasons.h"

namespace understudy {

void Reasons::explain(const ComparedPart& part, ComparedRow& row) const {
  const bool predicted = row.differs(Speed::kClosedForm, Speed::kPackets) ||
                         row.differs(Speed::kClosedForm, Speed::kFlow);
  const bool flow = row.differs(Speed::kFlow, Speed::kPackets);
  if (predicted) explain_prediction(part, row);
  if (flow) explain_flow(row);
  row.unexplained = (predicted || flow) && row.reasons.empty();
}

void Reasons::explain_prediction(const ComparedPart&, ComparedRow&) const {}
void Reasons::explain_flow(ComparedRow&) const {}
std::vector<std::string> Reasons::not_modelled() const { return {}; }

}  // namespace understudy
