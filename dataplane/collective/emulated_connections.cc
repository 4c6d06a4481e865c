#include "dataplane/collective/emulated_connections.h"

#include "dataplane/base/assert.h"

namespace understudy {

EmulatedConnections::EmulatedConnections(const CollectiveJob& job, CollectiveProgress& progress,
                                         Listener& listener)
    : job_(job), progress_(progress), listener_(listener), links_(job.links.size()) {
  for (uint32_t l = 0; l < links_.size(); ++l) ends_.emplace_back(*this, l);
}

bool EmulatedConnections::wake(Time now, EndpointHost& host, uint64_t cookie) {
  const uint64_t kind = cookie & kKinds;
  if (kind == 0) return false;
  const auto link = static_cast<uint32_t>(cookie);
  DEBUG_ASSERT_INVARIANT(link < links_.size());
  if (kind == kGrant) {
    grant(now, host, link);
  } else if (kind == kJoin) {
    join(now, host, link);
  } else {
    links_[link].joined = false;
  }
  return true;
}

void EmulatedConnections::join(Time now, EndpointHost& host, uint32_t link) {
  Link& l = links_[link];
  DEBUG_ASSERT_INVARIANT(!l.joined);
  DEBUG_ASSERT_INVARIANT(l.owed == 0 || real_sends(link));
  l.joined = true;
  for (; l.owed > 0; --l.owed) grant(now, host, link);
  if (!real_sends(link)) listener_.on_credit(now, link);
}

void EmulatedConnections::grant(Time now, EndpointHost& host, uint32_t link) {
  Link& l = links_[link];
  DEBUG_ASSERT_INVARIANT(real_sends(link));
  if (!l.joined) {
    ++l.owed;
    return;
  }
  const uint64_t k = l.receiver.granted();
  if (l.receiver.grant(now, host)) listener_.on_granted(now, link, k);
}

EmulatedConnections::End::End(EmulatedConnections& all, uint32_t link) : all_(all), link_(link) {
  for (const Kind kind : {kMessage, kAcknowledgement}) {
    if (after(kind) > Duration()) late_[kind].what.resize(Late::kMost);
  }
}

void EmulatedConnections::End::on_received(Time now, Qp& qp, const Received& message) {
  Link& l = all_.links_[link_];
  if (!all_.real_sends(link_)) return hear(now, kMessage, 0);
  l.receiver.received(qp, message, [&](uint32_t bytes) { hear(now, kMessage, bytes); });
}

void EmulatedConnections::End::on_completed(Time now, Qp& qp, uint64_t id, WorkStatus status) {
  Link& l = all_.links_[link_];
  if (status != WorkStatus::kSuccess) {
    const bool goes_on = all_.real_sends(link_) ? l.receiver.fails_over(now, *host_, qp, id, status)
                                                : l.sender.fails_over(now, qp, id, status);
    if (!goes_on) all_.progress_.fail(now);
    return;
  }
  if (all_.real_sends(link_)) return;  // a credit of ours
  l.sender.acknowledged(qp, id, [&](uint64_t sent) { hear(now, kAcknowledgement, sent); });
}

/// The program knows at once, or when its NIC has told it.
void EmulatedConnections::End::hear(Time now, Kind kind, uint64_t what) {
  Late& late = late_[kind];
  if (late.end - late.first == late.what.size()) return heard(now, kind, what);
  late.what[late.end++ % Late::kMost] = what;
  host_->wake_at(now + after(kind), *this, kind);
}

void EmulatedConnections::End::on_wake(Time now, uint64_t kind) {
  Late& late = late_[kind];
  heard(now, static_cast<Kind>(kind), late.what[late.first++ % Late::kMost]);
}

void EmulatedConnections::End::heard(Time now, Kind kind, uint64_t what) {
  Link& l = all_.links_[link_];
  std::atomic<uint64_t>& moved = all_.progress_.moved;  // this shard alone writes it
  moved.store(moved.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (kind == kAcknowledgement) return all_.listener_.on_acknowledged(now, link_, what);
  if (all_.real_sends(link_)) {
    return all_.listener_.on_data(now, link_, static_cast<uint32_t>(what));
  }
  ++l.credits;
  if (l.joined) all_.listener_.on_credit(now, link_);
}

void EmulatedConnections::End::on_transmitted(Time scheduled, Time actual, Qp&, uint64_t id) {
  if (all_.real_sends(link_)) return;
  const auto message = all_.links_[link_].sender.ends_message(id);
  if (message) all_.listener_.on_left(scheduled, actual, link_, *message);
}

}  // namespace understudy
