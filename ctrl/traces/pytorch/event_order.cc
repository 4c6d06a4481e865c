#include "ctrl/traces/pytorch/event_order.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace understudy {
namespace {

/// An event that others may lie in.
struct Open {
  uint32_t event = 0;
  int64_t end_ns = 0;
  int64_t covered_ns = 0, covered_until = 0;  ///< by events within it
  bool is_within = false;                     ///< the one below it
};

bool is_of_nccl(std::string name) {
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.find("nccl") != std::string::npos;
}

}  // namespace

std::vector<int64_t> exclusive_times(const DeviceTrace& device) {
  std::vector<int64_t> own;
  own.reserve(device.events.size());
  for (const DeviceEvent& event : device.events) own.push_back(event.duration_ns);
  std::map<int64_t, std::vector<Open>> threads;
  const auto close = [&own](std::vector<Open>& open) {
    own[open.back().event] -= open.back().covered_ns;
    open.pop_back();
  };
  for (uint32_t i = 0; i < device.events.size(); ++i) {
    const DeviceEvent& event = device.events[i];
    if (event.kind != DeviceEventKind::kCpu) continue;
    std::vector<Open>& open = threads[event.thread];
    while (!open.empty() && open.back().end_ns <= event.start_ns) close(open);
    Open made;
    made.event = i;
    made.end_ns = event.end_ns();
    made.covered_until = event.start_ns;
    made.is_within = !open.empty() && made.end_ns <= open.back().end_ns;
    // Events begin in order: of each union only the end matters. Whoever holds one that holds this
    // event is covered there already.
    for (auto around = open.rbegin(); around != open.rend(); ++around) {
      if (made.end_ns > around->end_ns) continue;
      const int64_t from = std::max(around->covered_until, event.start_ns);
      around->covered_ns += std::max<int64_t>(0, made.end_ns - from);
      around->covered_until = std::max(around->covered_until, made.end_ns);
      if (around->is_within) break;
    }
    open.push_back(made);
  }
  for (auto& [thread, open] : threads) {
    while (!open.empty()) close(open);
  }
  return own;
}

OperationsByThread::OperationsByThread(const DeviceTrace& device) : device_(device) {
  for (uint32_t i = 0; i < device.events.size(); ++i) {
    const DeviceEvent& event = device.events[i];
    if (event.kind != DeviceEventKind::kCpu) continue;
    by_thread_[event.thread].push_back(i);
    if (event.external) by_external_[{event.thread, *event.external}].push_back(i);
  }
}

std::optional<uint32_t> OperationsByThread::latest(const Places& places, int64_t before_ns,
                                                   bool of_nccl) const {
  auto at = std::lower_bound(
      places.begin(), places.end(), before_ns,
      [this](uint32_t place, int64_t time) { return device_.events[place].start_ns < time; });
  while (at != places.begin()) {
    --at;
    if (!of_nccl || device_.events[*at].name != "nccl:coalesced") return *at;
  }
  return {};
}

std::optional<uint32_t> OperationsByThread::launching(const DeviceEvent& kernel,
                                                      const DeviceEvent& launch) const {
  const bool of_nccl = is_of_nccl(kernel.name);
  if (kernel.external) {
    const auto same = by_external_.find({launch.thread, *kernel.external});
    if (same != by_external_.end()) {
      const auto found = latest(same->second, launch.start_ns, of_nccl);
      if (found) return found;
    }
  }
  const auto thread = by_thread_.find(launch.thread);
  if (thread == by_thread_.end()) return {};
  return latest(thread->second, launch.start_ns, of_nccl);
}

std::optional<uint32_t> OperationsByThread::first_after(int64_t thread, int64_t time_ns) const {
  const auto own = by_thread_.find(thread);
  if (own == by_thread_.end()) return {};
  const auto at = std::lower_bound(
      own->second.begin(), own->second.end(), time_ns,
      [this](uint32_t place, int64_t time) { return device_.events[place].start_ns < time; });
  if (at == own->second.end()) return {};
  return *at;
}

}  // namespace understudy
