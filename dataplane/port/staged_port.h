// A DPDK port over several cores, as the packet thread sees it: a stage in front of it, and one
// behind it if there is a third core.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "dataplane/base/try.h"
#include "dataplane/port/receive_stage.h"
#include "dataplane/port/transmit_stage.h"

namespace understudy {

class StagedPort final : public Port {
 public:
  /// Over 2 or 3 cores. The device outlives it. Error: too few buffers.
  static Result<std::unique_ptr<StagedPort>> open(DpdkPort& device, unsigned cores,
                                                  bool verify_icrc) {
    std::unique_ptr<StagedPort> port(new StagedPort(device, verify_icrc));
    if (cores < 3) return port;
    TRY(port->transmit_.emplace(device).prepare());
    return port;
  }

  ReceiveStage& receive_stage() { return receive_; }
  /// Null: the packet thread sends.
  TransmitStage* transmit_stage() { return transmit_ ? &*transmit_ : nullptr; }

  const std::string& name() const override { return device_.name(); }
  uint32_t mtu() const override { return device_.mtu(); }
  std::span<const std::span<const uint8_t>> rx() override { return {}; }
  BurstSource* source() override { return &receive_; }
  TxSink& tx() override { return transmit_ ? *transmit_ : device_.tx(); }
  void flush(Time now) override { transmit_ ? transmit_->flush() : device_.flush(now); }
  PortCounters counters() const override { return device_.counters(); }

 private:
  StagedPort(DpdkPort& device, bool verify_icrc) : device_(device), receive_(device, verify_icrc) {}

  DpdkPort& device_;
  ReceiveStage receive_;
  std::optional<TransmitStage> transmit_;
};

}  // namespace understudy
