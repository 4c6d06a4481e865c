// A run in real time as control sees it: devices opened, the packet thread, the capture. Hides
// DPDK.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/shard.h"
#include "dataplane/runtime/worker.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

struct LivePort {
  std::string name;                   ///< appears in errors and in the capture
  std::string device;                 ///< DPDK vdev string or PCI address
  bool transmit_time_stamps = false;  ///< see DpdkPortOptions
  /// Threads that move its packets: 1, or the packet thread with one in front of it, and with 3 one
  /// behind it (StagedPort).
  unsigned cores = 1;
  bool verify_icrc = true;  ///< in the thread in front of the packet thread
};

/// A shard, and which of the ports it has in the order of its own.
struct LiveShard {
  Shard* shard = nullptr;
  std::vector<size_t> ports;
};

struct LiveOptions {
  std::vector<LivePort> ports;
  std::string capture_path;  ///< empty: none
  bool spin = true;          ///< idle by polling on, not by sleeping
  bool verbose = false;      ///< DPDK's own log
};

/// Why this build cannot run in real time and what to do about it; empty if it can.
std::string why_no_live();

/// What may be wrong with how many threads poll without a pause, in words; empty if nothing is.
std::string doubt_about(const LiveOptions& options);

class Live {
 public:
  /// Starts DPDK and opens all devices. Errors name the port and its device and say what to do; in
  /// a build without DPDK why_no_live() is the error.
  static Result<std::unique_ptr<Live>> open(const LiveOptions& options);
  virtual ~Live() = default;
  /// Starts the packet thread. Shards outlive this object.
  virtual Result<void> start(const std::vector<LiveShard>& shards) = 0;
  /// Ends the packet thread and the capture; reports the capture's first error.
  virtual Result<void> stop() = 0;
  /// Time since open().
  virtual Time now() const = 0;
  virtual int64_t started_seconds() const = 0;  ///< of Time::zero(), since 1970 UTC
  virtual void note_change(const LinkChange& change) = 0;
  /// Complete once stop() has returned, as are the following.
  virtual WorkerStats loop() const = 0;
  virtual PortCounters device(size_t port) const = 0;
  virtual bool has_transmit_time_stamps(size_t port) const = 0;
  virtual bool uses_transmit_time_stamps(size_t port) const = 0;
  virtual uint64_t capture_drops() const = 0;
};

}  // namespace understudy
