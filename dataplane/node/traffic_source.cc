#include "dataplane/node/traffic_source.h"

namespace understudy {

void TrafficSource::on_wake(Time now, uint64_t cookie) {
  remote_ = reinterpret_cast<const RemoteBuffer*>(cookie);
  progress_.first = now;
  fill_window(now);
}

void TrafficSource::fill_window(Time now) {
  while (posted_ < setup_.count && posted_ - progress_.completed < setup_.window) {
    WorkRequest request;
    request.op = setup_.op;
    request.remote_va = remote_->va;
    request.rkey = remote_->rkey;
    request.length = setup_.bytes;
    if (!host_->post(now, *qp_, request)) return;  // a completion makes room
    ++posted_;
  }
}

void TrafficSource::on_completed(Time now, Qp&, uint64_t, WorkStatus status) {
  if (progress_.ended.load(std::memory_order_relaxed)) return;
  if (status != WorkStatus::kSuccess) return progress_.end(now, status);
  if (++progress_.completed == setup_.count) return progress_.end(now, status);
  fill_window(now);
}

}  // namespace understudy
