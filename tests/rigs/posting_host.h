// What an endpoint posts, written down; and an owner of queue pairs that does not listen.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/node/endpoint.h"

namespace understudy {

class PostingHost : public EndpointHost {
 public:
  struct Posted : WorkRequest {
    const Qp* qp = nullptr;
  };

  bool post(Time, Qp& qp, const WorkRequest& request) override {
    if (posted.size() >= room) return false;
    posted.push_back({request, &qp});
    return true;
  }
  void wake_at(Time, Endpoint&, uint64_t) override {}
  Duration arrival_uncertainty() const override { return Duration(); }
  void tell(Time, const Qp&, NoticeKind, std::span<const uint8_t>) override {}

  size_t room = SIZE_MAX;  ///< of `posted`
  std::vector<Posted> posted;
};

class NoOwner : public QpOwner {
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time, Qp&, uint64_t, WorkStatus) override {}
};

}  // namespace understudy
