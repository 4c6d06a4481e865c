// The active side of a test: an endpoint that keeps a window of requests of one size under way
// until so many are done.
#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/node/services.h"

namespace understudy {

/// What the traffic came to, written by the shard; control reads the rest once `ended` is true.
struct TrafficProgress {
  Time first;  ///< the first request was posted
  Time last;   ///< the last one completed
  uint64_t completed = 0;
  WorkStatus status = WorkStatus::kSuccess;  ///< of the first request that failed
  bool wrong = false;  ///< the peer answered with other data, or with another message, than is due
  std::atomic<bool> ended{false};

  void end(Time now, WorkStatus how) {
    last = now;
    status = how;
    ended.store(true, std::memory_order_release);
  }
};

class TrafficSource : public Endpoint {
 public:
  struct Setup {
    WorkOp op = WorkOp::kWrite;  ///< WRITE, READ or SEND
    uint32_t bytes = 0;          ///< of one request
    uint64_t count = 0;          ///< at least 1
    uint32_t window = 1;         ///< most requests under way
  };
  /// `progress` outlives this object.
  TrafficSource(const Setup& setup, TrafficProgress& progress)
      : setup_(setup), progress_(progress) {}
  void set_qp(Qp& qp) { qp_ = &qp; }  ///< before the first wake
  /// The cookie is the address of a RemoteBuffer, which outlives this object: begin.
  void on_wake(Time now, uint64_t cookie) override;
  void on_received(Time, Qp&, const Received&) override {}
  void on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) override;

 private:
  void fill_window(Time now);

  Setup setup_;
  TrafficProgress& progress_;
  const RemoteBuffer* remote_ = nullptr;
  Qp* qp_ = nullptr;
  uint64_t posted_ = 0;
};

}  // namespace understudy
