#include "collective_model/operation_plan.h"

#include <utility>

#include "collective_model/closed_ring.h"
#include "collective_model/closed_tree.h"
#include "collective_model/environment.h"

namespace understudy {

Result<std::unique_ptr<Plan>> make_plan(EnvironmentConfig config) {
  if (std::unique_ptr<Plan> ring = ClosedRing::make(config)) return ring;
  if (std::unique_ptr<Plan> tree = ClosedTree::make(config)) return tree;
  Result<Environment> made = Environment::make(std::move(config));
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<Environment>(std::move(*made));
}

}  // namespace understudy
