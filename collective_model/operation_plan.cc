#include "collective_model/operation_plan.h"

#include <utility>

#include "collective_model/alike_plan.h"
#include "collective_model/all_to_all_plan.h"
#include "collective_model/closed_ring.h"
#include "collective_model/closed_tree.h"
#include "collective_model/environment.h"
#include "collective_model/ideal_plan.h"

namespace understudy {

Result<std::unique_ptr<Plan>> make_plan(EnvironmentConfig config) {
  if (config.all_to_all) return AllToAllPlan::make(config);
  if (config.alike) return AlikePlan::make(config);
  if (std::unique_ptr<Plan> ring = ClosedRing::make(config)) return ring;
  if (std::unique_ptr<Plan> tree = ClosedTree::make(config)) return tree;
  Result<Environment> made = Environment::make(std::move(config));
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<Environment>(std::move(*made));
}

Result<std::unique_ptr<Plan>> make_ideal_plan(EnvironmentConfig config) {
  if (config.all_to_all) return AllToAllPlan::make_ideal(std::move(config));
  if (config.alike) return AlikePlan::make_ideal(std::move(config));
  if (std::unique_ptr<Plan> plan = IdealPlan::make(config)) return plan;
  Result<Environment> made = Environment::make_ideal(std::move(config));
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<Environment>(std::move(*made));
}

}  // namespace understudy
