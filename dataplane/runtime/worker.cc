#include "dataplane/runtime/worker.h"

#include <algorithm>
#include <utility>

#include "dataplane/runtime/nap.h"

namespace understudy {
namespace {

/// The kernel wakes us late by about this much; so close to a deadline the loop spins.
constexpr Duration kNapMargin = Duration::us(10);
constexpr Duration kShortestNap = Duration::us(2);

}  // namespace

std::vector<PollGap> WorkerStats::gap_list() const {
  const auto filled = static_cast<std::ptrdiff_t>(std::min<uint64_t>(gaps, kMaxGaps));
  std::vector<PollGap> list(kept.begin(), kept.begin() + filled);
  std::sort(list.begin(), list.end(),
            [](const PollGap& a, const PollGap& b) { return a.from < b.from; });
  return list;
}

void WorkerStats::note_gap(PollGap gap) {
  if (gaps++ < kMaxGaps) {
    kept[gaps - 1] = gap;
    return;
  }
  auto shortest =
      std::min_element(kept.begin(), kept.end(),
                       [](const PollGap& a, const PollGap& b) { return a.length < b.length; });
  if (gap.length > shortest->length) *shortest = gap;
}

Worker::Worker(const Clock& clock, const WorkerConfig& config,
               const std::vector<Attachment>& attachments)
    : clock_(clock), config_(config) {
  for (const Attachment& a : attachments) {
    Lane& lane = lanes_.emplace_back();
    lane.ports = a.ports;
    lane.shard = a.shard;
    lane.polled.resize(a.ports.size());
    for (Port* port : a.ports) lane.sinks.push_back(&port->tx());
  }
}

void Worker::run() {
  exact_naps();
  Time last = clock_.now();
  for (Lane& lane : lanes_) std::ranges::fill(lane.polled, last);
  while (!stopping_.load(std::memory_order_relaxed)) {
    bool busy = false;
    Time now;
    for (Lane& lane : lanes_) {
      now = clock_.now();
      busy = serve(lane, now) || busy;
    }
    ++stats_.loops;
    const PollGap gap{last, now - last};
    last = now;
    if (gap.length > stats_.longest.length) stats_.longest = gap;
    if (gap.length >= config_.gap_threshold) stats_.note_gap(gap);
    if (busy) continue;
    if (config_.idle == IdlePolicy::kSpin) {
      pause_briefly();
      continue;
    }
    const Duration spare = next_wake() - clock_.now() - kNapMargin;
    if (spare < kShortestNap) continue;
    ++stats_.naps;
    nap(std::min(spare, kLongestNap));
  }
}

/// True when frames came in.
bool Worker::receive(Lane& lane, uint32_t port, Time start) {
  Port& device = *lane.ports[port];
  if (BurstSource* source = device.source()) {
    RxBurst burst;
    burst.port = port;
    if (!source->next(burst)) return false;
    ++stats_.bursts;
    // Another thread had it while the shard's time went on, which never goes back.
    if (burst.at < lane.served) {
      burst.uncertainty += lane.served - burst.at;
      burst.at = lane.served;
    }
    lane.shard->rx(burst);
    return true;
  }
  const Time polled = std::exchange(lane.polled[port], start);
  const auto frames = device.rx();
  if (frames.empty()) return false;
  const Time now = clock_.now();
  ++stats_.bursts;
  if (CaptureTap* tap = device.capture()) {
    for (const auto frame : frames) {
      tap->frame(CaptureDirection::kIn, now, Time::never(), frame);
    }
  }
  lane.shard->rx({now, now - polled, frames, port});
  return true;
}

/// One turn of one shard. True when frames came in, so that more may wait.
bool Worker::serve(Lane& lane, Time start) {
  bool busy = false;
  Time now = start;
  for (uint32_t port = 0; port < lane.ports.size(); ++port) {
    if (!receive(lane, port, now)) continue;
    busy = true;
    now = clock_.now();
  }
  lane.shard->poll(now, lane.sinks);
  lane.served = now;
  for (Port* port : lane.ports) port->flush(clock_.now());
  return busy;
}

Time Worker::next_wake() const {
  Time next = Time::never();
  for (const Lane& lane : lanes_) next = std::min(next, lane.shard->next_wake());
  return next;
}

}  // namespace understudy
