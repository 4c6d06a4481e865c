// The kernels of a run in virtual time: User-mode Linux guests, each with a program of the user's,
// from their making to what they came to.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctrl/config/config.h"
#include "ctrl/guest/guest_process.h"
#include "ctrl/report/run_report.h"
#include "dataplane/base/result.h"
#include "dataplane/virtual_time/simulation.h"

namespace understudy {

/// What RoCE's headers and UDP's take of an IP packet, and more: rdma_rxe takes the largest path
/// MTU that fits. In bytes.
inline constexpr uint32_t kGuestHeaders = 104;

class KernelGuests {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `config` outlives this.
  KernelGuests(const Config& config, Say say) : config_(config), say_(std::move(say)) {}

  /// Makes all of the configuration's, which do not run yet; their sockets lie in `folder`.
  Result<void> make(const std::string& folder);
  /// Their NICs, each behind the pair of its port's number.
  const std::vector<SimulationGuest>& plans() const { return plans_; }
  /// Boots them. `simulation`, made of plans(), outlives their running; `stopped`: nobody wants the
  /// run any more.
  Result<void> boot(Simulation& simulation, const std::function<bool()>& stopped);
  /// All programs have ended.
  bool over() const;
  /// Says what was printed, in the host's time now and then; an error is what has failed.
  Result<void> look();
  /// Whose programs have not ended, or ended badly: lines for the text of an error.
  std::string waiting() const;
  /// That they have sent and received.
  uint64_t frames() const;
  /// What is left to say, and what each came to. `ended_early`: programs may not have ended.
  Result<std::vector<KernelReport>> finish(bool ended_early);

 private:
  struct Guest {
    NodeId node = kNoNode;
    std::unique_ptr<GuestProcess> process;
    std::string line;    ///< of its program's output, as far as it has come
    bool ended = false;  ///< its kernel, after its program
    Time ended_at = Time::never();
  };
  GuestSettings settings_of(const NodeConfig& node, uint32_t number) const;
  void print(Guest& guest);
  tl::unexpected<Error> failed(const Guest& guest, const std::string& why) const;

  const Config& config_;
  const Say say_;
  std::vector<SimulationGuest> plans_;
  Simulation* simulation_ = nullptr;
  std::chrono::steady_clock::time_point next_print_;
  std::vector<Guest> guests_;
};

}  // namespace understudy
