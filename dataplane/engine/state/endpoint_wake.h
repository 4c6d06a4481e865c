// What an endpoint has asked to be woken with.
#pragma once

#include <cstdint>

#include "dataplane/node/endpoint.h"

namespace understudy {

struct EndpointWake {
  Endpoint* endpoint = nullptr;
  uint64_t cookie = 0;
};

/// Whom a wake-up is for whose endpoint is no more.
class NoEndpoint final : public Endpoint {
 public:
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
};

}  // namespace understudy
