#include "tools/soft_nic/device/nic.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tools/soft_nic/device/queue_pair.h"

namespace understudy::soft_nic {

namespace {

constexpr Duration kAskAgain = Duration::s(1);
constexpr int kQuestions = 3;
constexpr Duration kPatience = Duration::us(20);
constexpr Duration kSlice = Duration::us(200);  ///< no yield takes as long without another's work
constexpr Duration kCrowdLasts = Duration::ms(100);
constexpr Duration kNap = Duration::us(100);  ///< programs poll for other things, too
constexpr int kMostBursts = 256;  ///< received before timers run, however fast more comes

}  // namespace

Nic::Nic(const Interface& interface, uint32_t window, uint32_t first_qpn,
         std::unique_ptr<FramePort> port, std::function<Time()> clock)
    : interface_(interface),
      window_(window),
      first_qpn_(first_qpn),
      longest_frame_(longest_roce_frame(interface.mtu)),
      port_(std::move(port)),
      clock_(std::move(clock)),
      neighbours_(interface_),
      slots_(kQueuePairs) {}

void Nic::try_progress() {
  const Time at = now();
  note_polled(at);
  bool busy = false;
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock()) busy = progress(at);
  if (busy) {
    busy_.store(at.ps(), std::memory_order_relaxed);
  } else if (at.ps() - busy_.load(std::memory_order_relaxed) > kPatience.ps()) {
    give_way(at);
  }
}

/// The peer may need this CPU to have something for us: a program that spins would keep it for the
/// rest of its time slice. Where nobody does, to yield costs next to nothing, and nothing is late.
/// Where somebody does, it costs a time slice of theirs: then the kernel wakes us by the frame.
void Nic::give_way(Time at) {
  if (at.ps() < crowded_until_.load(std::memory_order_relaxed)) return nap();
  sched_yield();
  const Time back = now();
  if (back - at > kSlice) crowded_until_.store((back + kCrowdLasts).ps());
}

/// Several threads may wait at a time, and the last one to end lets the port be silent again.
bool Nic::begin_wait() {
  const std::lock_guard lock(mutex_);
  if (!port_->begin_wait()) {
    if (waiting_ == 0) port_->end_wait();
    return false;
  }
  ++waiting_;
  return true;
}

void Nic::end_wait() {
  const std::lock_guard lock(mutex_);
  if (--waiting_ == 0) port_->end_wait();
}

void Nic::nap() {
  if (!begin_wait()) return;
  const Duration left = std::min(kNap, next_wake().is_never() ? kNap : next_wake() - now());
  if (left > Duration()) {
    pollfd fd{port_->wait_fd(), POLLIN, 0};
    const timespec most{0, left.ps() / 1000};
    ppoll(&fd, 1, &most, nullptr);
  }
  end_wait();
}

bool Nic::progress(Time now) {
  bool busy = receive(*port_, now);
  busy |= receive(loop_, now);
  busy |= run_timers(now);
  busy |= !ready_.empty();
  send(now);
  return busy;
}

/// A process that did not have the CPU for a while finds timers that ran out beside the answers that
/// came meanwhile, behind other frames perhaps: the answers count first.
bool Nic::run_timers(Time now) {
  if (now < timers_) return false;
  for (int i = 0; i < kMostBursts && receive(*port_, now); ++i) continue;
  timers_ = Time::never();
  for (QueuePair* qp : slots_) {
    if (qp == nullptr) continue;
    if (qp->deadline() <= now) qp->on_timer(now);
    touch(*qp, now);
  }
  if (services_ != nullptr) {
    if (services_->deadline() <= now) services_->on_time(now);
    touch_services();
  }
  return true;
}

void Nic::touch_services() { timers_ = std::min(timers_, services_->deadline()); }

/// The alarm is for times that come nearer only: later ones cost the helper a look around.
void Nic::set_wake(Time wake) {
  const Time before = next_wake();
  wake_.store(wake.ps());
  if (wake < before) alarm();
}

void Nic::touch(QueuePair& qp, Time now) {
  timers_ = std::min(timers_, qp.deadline());
  if (qp.is_ready || !qp.has_packet(now)) return;
  qp.is_ready = true;
  ready_.push_back(&qp);
}

bool Nic::add(QueuePair& qp) {
  for (uint32_t tries = 0; tries < kQueuePairs; ++tries) {
    // In turn, so that late packets of one that is gone meet nobody for long.
    const uint32_t slot = next_slot_++ % kQueuePairs;
    if (slots_[slot] != nullptr) continue;
    slots_[slot] = &qp;
    qp.set_number(first_qpn_ + slot);
    return true;
  }
  return false;
}

void Nic::remove(QueuePair& qp) {
  slots_[qp.number() - first_qpn_] = nullptr;
  std::erase(ready_, &qp);
  qp.end_connection();
}

void Nic::forget_queue_pairs() {
  std::fill(slots_.begin(), slots_.end(), nullptr);
  ready_.clear();
}

Rkey Nic::add_region(const Region& region) {
  uint32_t index = regions_used_;
  if (!free_regions_.empty()) {
    index = free_regions_.back();
    free_regions_.pop_back();
  } else if (regions_used_ == kRegions) {
    return 0;
  } else {
    ++regions_used_;
  }
  regions_.add(index, region);
  return regions_.rkey(index);
}

void Nic::remove_region(Rkey key) {
  const uint32_t index = (key >> 8) - 1;
  for (QueuePair* qp : slots_) {
    if (qp != nullptr && qp->uses(index + 1)) qp->fail(IBV_EVENT_QP_FATAL);
  }
  regions_.remove(index);
  free_regions_.push_back(index);
}

void Nic::ask(const IpAddress& hop) {
  uint8_t* out = port_->reserve(Neighbours::kFrameBytes);
  if (out == nullptr) return;
  const uint32_t bytes = neighbours_.ask(hop, out);
  if (bytes == 0) return;
  port_->commit(bytes);
  port_->flush();
}

std::optional<MacAddress> Nic::resolve(const IpAddress& to, std::unique_lock<std::mutex>& lock) {
  const IpAddress hop = interface_.has(to) ? to : interface_.next_hop(to);
  for (int i = 0; i < kQuestions; ++i) {
    if (const auto known = neighbours_.find(hop)) return known;
    ask(hop);
    for (const Time end = now() + kAskAgain; now() < end;) {
      progress(now());
      if (const auto known = neighbours_.find(hop)) return known;
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      lock.lock();
    }
  }
  return std::nullopt;
}

}  // namespace understudy::soft_nic
