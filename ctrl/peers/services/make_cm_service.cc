#include "ctrl/peers/services/make_cm_service.h"

#include "ctrl/peers/perftest/perftest_cm.h"
#include "ctrl/peers/rdma_core/rping.h"
#include "ctrl/peers/rdma_core/ucmatose.h"

namespace understudy {

std::unique_ptr<CmService> make_cm_service(const Service& service) {
  switch (service.kind) {
    case ServiceKind::kRping:
      return std::make_unique<RpingService>(service);
    case ServiceKind::kUcmatose:
      return std::make_unique<UcmatoseService>(service);
    case ServiceKind::kPingpong:
    case ServiceKind::kUdPingpong:
      return nullptr;
    default:
      return std::make_unique<PerftestCmService>(service);
  }
}

}  // namespace understudy
