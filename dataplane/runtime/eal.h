// DPDK's environment: brought up once per process, for the devices of one configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/result.h"

namespace understudy {

struct EalPort {
  std::string name;    ///< as the user knows it: appears in errors
  std::string device;  ///< see DpdkDevice
  unsigned cores = 1;  ///< threads that move its packets, the packet thread one of them
};

struct EalOptions {
  std::vector<EalPort> ports;  ///< all that will be opened
  bool verbose = false;        ///< DPDK's own log goes to stderr
};

class Eal {
 public:
  /// The packet thread runs on this lcore, further ones of ports (EalPort::cores) on those behind
  /// it; the calling thread becomes lcore 0.
  static constexpr unsigned kWorkerLcore = 1;

  /// Starts DPDK, at most once in a process. Huge pages are used where enough are free; virtual
  /// devices do without. Errors name the port whose device cannot be had, and say what to do.
  static Result<std::unique_ptr<Eal>> start(const EalOptions& options);
  /// Ports must be closed before.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  /// How many this process may run on.
  static unsigned cpus();
  bool huge_pages() const { return huge_pages_; }

 private:
  explicit Eal(bool huge_pages) : huge_pages_(huge_pages) {}
  bool huge_pages_;
};

}  // namespace understudy
