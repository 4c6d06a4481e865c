#include "dataplane/flows/flow_load.h"

#include <algorithm>

namespace understudy {

void FlowLoad::start(Network& network) {
  network_ = &network;
  network.share_with(*this);
  model_.start();
  wait();
}

void FlowLoad::wait() {
  const Time next = model_.next();
  if (next >= waiting_) return;
  waiting_ = next;
  network_->wake_at(next, 0);
}

void FlowLoad::wake(uint32_t, Time now) {
  if (now < waiting_) return;  // a change has made something earlier since
  waiting_ = Time::never();
  while (model_.next() <= now) model_.step();
  wait();
}

void FlowLoad::link_changed(const RateChange& change) {
  model_.change(change);
  wait();
}

void FlowLoad::set_running(uint32_t group, bool running, Time now) {
  model_.change(GroupChange{now, group, running});
  wait();
}

Rate FlowLoad::left(LinkId link, Rate rate) const {
  const MaxMin& rates = model_.rates();
  const uint64_t used = rates.used(link) >> MaxMin::kFractionBits;
  const uint64_t fair = rate.bps() / (rates.senders(link) + 1);
  return Rate::bits_per_second(std::max(fair, rate.bps() > used ? rate.bps() - used : 0));
}

}  // namespace understudy
