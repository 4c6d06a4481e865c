// Makes the machine that answers the RDMA-CM clients of a [[service]].
#pragma once

#include <memory>

#include "ctrl/peers/cm_service.h"

namespace understudy {

/// The machine for this service's clients; null where its kind's clients do not come by RDMA-CM.
std::unique_ptr<CmService> make_cm_service(const Service& service);

}  // namespace understudy
