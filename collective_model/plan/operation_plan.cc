#include "collective_model/plan/operation_plan.h"

#include <utility>

#include "collective_model/plan/all_to_all_plan.h"
#include "collective_model/plan/closed_ring.h"
#include "collective_model/plan/closed_tree.h"
#include "collective_model/plan/general_plan.h"
#include "collective_model/plan/symmetric_plan.h"
#include "collective_model/plan/uncongested_plan.h"
#include "dataplane/base/try.h"

namespace understudy {

Result<std::unique_ptr<Plan>> make_plan(PlanInput config) {
  if (config.all_to_all) return AllToAllPlan::make(config);
  if (config.alike) return SymmetricPlan::make(config);
  if (std::unique_ptr<Plan> ring = ClosedRing::make(config)) return ring;
  if (std::unique_ptr<Plan> tree = ClosedTree::make(config)) return tree;
  GeneralPlan made = TRY(GeneralPlan::make(std::move(config)));
  return std::make_unique<GeneralPlan>(std::move(made));
}

Result<std::unique_ptr<Plan>> make_uncongested_plan(PlanInput config) {
  if (config.all_to_all) return AllToAllPlan::make_ideal(std::move(config));
  if (config.alike) return SymmetricPlan::make_ideal(std::move(config));
  if (std::unique_ptr<Plan> plan = UncongestedPlan::make(config)) return plan;
  GeneralPlan made = TRY(GeneralPlan::make_ideal(std::move(config)));
  return std::make_unique<GeneralPlan>(std::move(made));
}

}  // namespace understudy
