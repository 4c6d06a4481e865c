// A run in virtual time as control sees it: pairs of shards joined by virtual links, real kernels
// instead of some of them, one loop, one capture. Hides the ports.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/base/result.h"
#include "dataplane/base/units.h"
#include "dataplane/engine/shard.h"
#include "dataplane/virtual_time/guest_node.h"
#include "dataplane/wire/pcapng.h"

namespace understudy {

/// A port of an emulator's shard, and the reference node's at the other end of its cable.
struct SimulationPair {
  std::string name;  ///< of the port
  Shard* emulator = nullptr;
  Shard* reference = nullptr;                      ///< null: a guest's NIC is there
  uint32_t emulator_port = 0, reference_port = 0;  ///< of these shards
};

/// A real kernel, its NICs at the other ends of pairs' cables.
struct SimulationGuest {
  struct Nic {
    size_t pair = 0;
    MacAddress mac;
    Rate rate;
  };
  std::string name;
  std::string folder;  ///< for its sockets, see GuestNode
  std::vector<Nic> nics;
  GuestCosts costs = {};
};

class Simulation {
 public:
  /// `capture_path` may be empty: no capture. Shards outlive the simulation.
  static Result<std::unique_ptr<Simulation>> create(const std::vector<SimulationPair>& pairs,
                                                    const std::string& capture_path,
                                                    const std::vector<SimulationGuest>& guests = {},
                                                    const GuestLimits& limits = {});
  virtual ~Simulation() = default;
  /// Runs until nothing is left to do, or until `limit`. May be called again.
  virtual Result<void> run(Time limit) = 0;
  /// One more participant, which outlives this; after all others at equal times.
  virtual void join(Participant& participant) = 0;
  virtual GuestNode& guest(size_t number) = 0;
  /// When something happens next, never() if nothing does; a time that has passed means at once.
  virtual Time next() const = 0;
  /// Asked now and then while it runs; an error ends run() with it.
  virtual void watch(std::function<Result<void>()> look) = 0;
  /// To be written into the capture where it takes effect, so that a checker knows.
  virtual void note_change(const LinkChange& change) = 0;
  virtual Time now() const = 0;
  /// Ends the capture.
  virtual Result<void> close() = 0;
};

}  // namespace understudy
