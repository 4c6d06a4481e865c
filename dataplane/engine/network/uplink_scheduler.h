// What an emulated NIC sends next into a network with switches, by one of its uplinks: queue pairs
// whose class is paused, or whose path begins with another uplink, keep their place in line.
#pragma once

#include <utility>

#include "dataplane/engine/send/qp_scheduler.h"
#include "dataplane/engine/state/switched_fabric.h"

namespace understudy {

class UplinkScheduler {
 public:
  UplinkScheduler(ShardState& state, QpPacing& pacing, CnpQueue& cnps, QpScheduler& scheduler)
      : config_(state.config),
        pool_(state.pool),
        qps_(state.qps),
        pacing_(pacing),
        cnps_(cnps),
        scheduler_(scheduler) {}
  /// Before anything else: the network that the NICs' uplinks belong to.
  void send_into(SwitchedFabric& fabric) { fabric_ = &fabric; }

  /// As FabricUser says of both.
  uint32_t next_packet(uint32_t node, LinkId uplink, uint8_t blocked, Time now);
  uint64_t next_turn(uint32_t node, LinkId uplink, uint8_t blocked, Time now);
  void held(uint32_t node, LinkId uplink, Time now);

 private:
  std::pair<uint32_t, uint32_t> next_queued(uint32_t node, LinkId uplink, uint8_t blocked,
                                            Time now);
  uint32_t next_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked, Time now);
  uint64_t turn_of_line(uint32_t node, uint32_t line, LinkId uplink, uint8_t blocked, Time now);
  bool uses_uplink(uint32_t slot, LinkId uplink, uint8_t blocked) const;
  bool cnp_uses_uplink(uint32_t node, LinkId uplink, uint8_t blocked) const;
  uint32_t show_to_switches(uint32_t packet);

  const ShardConfig& config_;
  PacketPool& pool_;
  QpTable& qps_;
  QpPacing& pacing_;
  CnpQueue& cnps_;
  QpScheduler& scheduler_;
  SwitchedFabric* fabric_ = nullptr;
};

}  // namespace understudy
