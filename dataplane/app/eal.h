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
};

struct EalOptions {
  std::vector<EalPort> ports;  ///< all that will be opened
  bool verbose = false;        ///< DPDK's own log goes to stderr
};

class Eal {
 public:
  /// Packet threads run on this lcore; the calling thread becomes lcore 0.
  static constexpr unsigned kWorkerLcore = 1;

  /// Starts DPDK, at most once in a process. Huge pages are used where enough are free; virtual
  /// devices do without. Errors name the port whose device cannot be had, and say what to do.
  static Result<std::unique_ptr<Eal>> start(const EalOptions& options);
  /// Ports must be closed before.
  ~Eal();
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;

  bool huge_pages() const { return huge_pages_; }

 private:
  explicit Eal(bool huge_pages) : huge_pages_(huge_pages) {}
  bool huge_pages_;
};

}  // namespace understudy
