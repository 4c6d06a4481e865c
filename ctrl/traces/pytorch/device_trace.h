// Device traces of PyTorch: when each operation of a process ran, on the CPU and on the GPU, as its
// profiler exports them: Kineto's JSON, or the plain list of a PyTorch that was built without Kineto
// (Debian's python3-torch).
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

enum class DeviceEventKind : uint8_t {
  kCpu,     ///< categories cpu_op and user_annotation, but for ProfilerStep; events of a plain list
  kLaunch,  ///< of cuda_runtime and cuda_driver, a call that starts work on the GPU
  kWait,    ///< of these, a call that waits for the GPU
  kGpu,     ///< categories kernel and gpu_memcpy
};

struct DeviceEvent {
  DeviceEventKind kind = DeviceEventKind::kCpu;
  std::string name;
  int64_t start_ns = 0, duration_ns = 0;
  int64_t thread = 0;                  ///< of the CPU
  uint64_t record_function = 0;        ///< the host trace's number of the operation; 0: none
  std::optional<int64_t> external;     ///< "External id": what belongs together
  std::optional<int64_t> correlation;  ///< what was launched by what
  int64_t stream = 0;                  ///< kGpu; kWait: -1 for all, -2 where it is not said

  int64_t end_ns() const { return start_ns + duration_ns; }
};

/// What a communication's kernel says of it; by Kineto's arguments.
struct DeviceCommunication {
  uint32_t event = 0;  ///< place in the events
  std::string collective, group;
  std::vector<uint32_t> ranks;    ///< of the group; empty: not said
  std::optional<uint64_t> bytes;  ///< of the input
};

struct DeviceTrace {
  /// By start; of equal ones the longer first.
  std::vector<DeviceEvent> events;
  std::vector<DeviceCommunication> communications;  ///< by event
  /// Of the events on the CPU.
  std::optional<uint64_t> process;
  /// Where Kineto says in which job it ran.
  std::optional<uint32_t> rank, ranks;
  bool numbers_operations = false;  ///< some event has a record_function

  const DeviceCommunication* communication_of(uint32_t event) const;
};

/// `name` is that of the file, for errors. They name the byte of an event with times that are no numbers,
/// and a file that is something else or ends early. Which events count: mlcommons/chakra 21585d8,
/// src/trace_link/kineto_operator.py; others are passed over.
Result<DeviceTrace> read_device_trace(std::istream& file, const std::string& name);

}  // namespace understudy
