// What the parts of a shard have in common: its configuration, packets, events, ports and queue
// pairs. Each part takes from here what it works on, and keeps what is only its own.
#pragma once

#include "dataplane/engine/state/event_queue.h"
#include "dataplane/engine/state/packet_pool.h"
#include "dataplane/engine/state/qp_table.h"
#include "dataplane/engine/state/real_ports.h"
#include "dataplane/engine/state/shard_config.h"
#include "dataplane/fabric/faults.h"
#include "dataplane/node/notice_rings.h"
#include "dataplane/rc/memory.h"

namespace understudy {

struct ShardState {
  explicit ShardState(const ShardConfig& made_of);
  ShardState(const ShardState&) = delete;
  ShardState& operator=(const ShardState&) = delete;

  // Tell control; lost, and counted, when it does not keep up.
  void notify(const Notice& notice, std::span<const uint8_t> bytes) {
    if (!notices.tell(notice, bytes)) ports[0].counters.drop(Drop::kControlBusy);
  }
  /// Of the real NIC at this position of the node table.
  void notify_from(uint32_t real, const Notice& notice, std::span<const uint8_t> bytes) {
    if (notices.tell_from(ports.index_of(real), notice, bytes)) return;
    ports.counters_of(real).drop(Drop::kControlBusy);
  }

  ShardConfig config;
  RealPorts ports;
  PacketPool pool;
  EventQueue events;
  QpTable qps;
  RegionTable regions;
  FaultInjector faults;
  NoticeRings notices;
  Duration arrival_uncertainty;  ///< of what is handled at this moment
};

}  // namespace understudy
