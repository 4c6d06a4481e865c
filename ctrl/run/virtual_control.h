// Control and the emulated nodes' TCP as one more participant of a run in virtual time.
#pragma once

#include <memory>
#include <string>

#include "ctrl/config/config.h"
#include "ctrl/run/emulated_side.h"
#include "ctrl/run/emulator.h"
#include "ctrl/virtual_host/virtual_host.h"
#include "dataplane/virtual_time/virtual_loop.h"

namespace understudy {

/// Has a turn when something has come for it, and now and then.
class VirtualControl final : public Participant {
 public:
  /// Listens on the emulated addresses. `emulator` has one shard; `reference`: as
  /// EmulatedSide::create() has it. `feed`: of a job's operations, a file; empty: they come by TCP.
  /// All other arguments outlive this.
  static Result<std::unique_ptr<VirtualControl>> create(const Config& config, Emulator& emulator,
                                                        std::vector<ShardControl*> reference,
                                                        const std::string& feed, RunReport& report,
                                                        EmulatedSide::Say say);

  EmulatedSide& side() { return *side_; }

  const std::string& name() const override { return name_; }
  Time next_event() const override;
  void advance_to(Time t) override;

 private:
  explicit VirtualControl(Shard& shard) : shard_(shard) {}
  Result<void> open(const Config& config);
  void send(std::span<const uint8_t> frame);

  const std::string name_ = "control";
  Shard& shard_;
  std::unique_ptr<EmulatedSide> side_;
  std::unique_ptr<VirtualHost> host_;
  Time now_, next_;
};

}  // namespace understudy
