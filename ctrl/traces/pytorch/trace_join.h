// A host trace and the device trace of the same run: when each operation ran, which kernels it started,
// and who waited for whom. The rules are those of mlcommons/chakra 21585d8, src/trace_link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ctrl/traces/pytorch/device_trace.h"
#include "ctrl/traces/pytorch/host_trace.h"
#include "dataplane/base/result.h"

namespace understudy {

struct JoinedOperation {
  std::optional<uint32_t> event;      ///< place in the device trace
  int64_t exclusive_ns = 0;           ///< its time less that of what it calls
  std::optional<uint32_t> waits_for;  ///< place in the host trace: of another thread (rule 3)
};

struct JoinedKernel {
  uint32_t event = 0;             ///< place in the device trace
  uint32_t operation = 0;         ///< place in the host trace: what started it
  std::vector<uint32_t> waiting;  ///< places in the host trace: what waits for it (rule 4)
};

struct JoinedTraces {
  std::vector<JoinedOperation> operations;  ///< by node of the host trace
  std::vector<JoinedKernel> kernels;        ///< by operation, then by start
  bool by_number = false;     ///< operations were found by their numbers, not by their names
  uint64_t found = 0;         ///< nodes of the host trace that have an event
  uint64_t lost_kernels = 0;  ///< whose launch or operation is not there
};

/// 1. A node and an event of the CPU are one if rf_id equals "Record function id"
///    (trace_linker.py, map_host_to_device_ops). Without such numbers (Debian's PyTorch) the events of a
///    name in a thread are the nodes of that name in that thread, in order, if they are as many; what is
///    left over, the same over all threads: the host trace gives a back end's mark the thread of its
///    caller.
/// 2. A kernel belongs to the launch of the same correlation, that to the latest operation of its
///    thread that began before it and has the kernel's "External id", else to the latest of its thread;
///    kernels of NCCL pass over nccl:coalesced (find_parent_cpu_op, find_closest_op).
/// 3. An operation after a gap of more than 1,000 us in its thread waits for the last operation that
///    began before it in any other thread, and so do those that follow up to the next gap
///    (process_thread_inter_thread_order). Marks of back ends on the CPU are not operations here.
/// 4. What follows, in its thread, a call that waits for a device or stream waits for the last kernel of
///    each stream that was started before that call and ended by its end. (Chakra takes these edges from
///    HTA's critical path; enforce_sync_dep, and convert_ctrl_dep_to_data_dep: only if the kernel began
///    before.)
/// An operation's own time is its event's less the union of events of its thread within it
/// (chakra_device_trace_loader.py, calculate_exclusive_dur).
///
/// Errors: the device trace is of another process: by its number, or as nothing in it is of the host trace,
/// or most numbers have other names there, or fewer than 9 in 10 nodes are found by name; two launches with
/// one correlation.
Result<JoinedTraces> join_traces(const HostTrace& host, const DeviceTrace& device);

}  // namespace understudy
