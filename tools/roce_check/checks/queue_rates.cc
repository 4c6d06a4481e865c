#include "tools/roce_check/checks/queue_rates.h"

#include <algorithm>

namespace understudy {
namespace {

uint64_t largest_window(const PacketTable& table, const Flow& flow, Duration window) {
  uint64_t most = 0, inside = 0;
  size_t from = 0;
  for (uint32_t index : flow.packets) {
    const PacketRecord& p = table.packets[index];
    inside += p.wire_bytes;
    while (p.at - table.packets[flow.packets[from]].at >= window) {
      inside -= table.packets[flow.packets[from++]].wire_bytes;
    }
    most = std::max(most, inside);
  }
  return most;
}

/// A bucket that drains at the mean rate: its highest level.
uint64_t burst(const PacketTable& table, const Flow& flow, double bytes_per_second) {
  double level = 0, highest = 0;
  Time before = table.packets[flow.packets.front()].at;
  for (uint32_t index : flow.packets) {
    const PacketRecord& p = table.packets[index];
    level = std::max(0.0, level - (p.at - before).seconds() * bytes_per_second) + p.wire_bytes;
    highest = std::max(highest, level);
    before = p.at;
  }
  return static_cast<uint64_t>(highest);
}

}  // namespace

QueueRate measure_rate(const PacketTable& table, const Flow& flow) {
  QueueRate out;
  if (flow.packets.empty()) return out;
  out.packets = flow.packets.size();
  for (uint32_t index : flow.packets) out.wire_bytes += table.packets[index].wire_bytes;
  out.active = table.packets[flow.packets.back()].at - table.packets[flow.packets.front()].at;
  for (size_t i = 0; i < kPeakWindows.size(); ++i) {
    out.peak_bytes[i] = largest_window(table, flow, kPeakWindows[i]);
  }
  if (out.active <= Duration()) return out;
  constexpr double kBitsPerByte = 8;
  const double bytes_per_second = static_cast<double>(out.wire_bytes) / out.active.seconds();
  out.mean_bps = bytes_per_second * kBitsPerByte;
  out.burst_bytes = burst(table, flow, bytes_per_second);
  return out;
}

}  // namespace understudy
