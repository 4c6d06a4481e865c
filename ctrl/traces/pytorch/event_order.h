// Events of a device trace by threads and times.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ctrl/traces/pytorch/device_trace.h"

namespace understudy {

/// By event: its duration less the union of the events of the CPU that lie within it in its thread, in
/// ns; of events that are not on the CPU their duration.
std::vector<int64_t> exclusive_times(const DeviceTrace& device);

/// Operations on the CPU.
class OperationsByThread {
 public:
  explicit OperationsByThread(const DeviceTrace& device);

  /// Place of the operation that a kernel belongs to (rule 2 of trace_join.h).
  std::optional<uint32_t> launching(const DeviceEvent& kernel, const DeviceEvent& launch) const;
  /// Place of the first operation of a thread that begins at a time or later.
  std::optional<uint32_t> first_after(int64_t thread, int64_t time_ns) const;

 private:
  using Places = std::vector<uint32_t>;
  std::optional<uint32_t> latest(const Places& places, int64_t before_ns, bool of_nccl) const;

  const DeviceTrace& device_;
  std::map<int64_t, Places> by_thread_;
  std::map<std::pair<int64_t, int64_t>, Places> by_external_;  ///< by thread and external id
};

}  // namespace understudy
